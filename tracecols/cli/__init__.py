"""The command line: thin, one file per command, loaded when it is called."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from tracecols.errors import TracecolsError
from tracecols.version import __version__

COMMANDS = {
    "convert": "Convert a trace archive to a store.",
    "info": "Print what a store holds.",
    "check": "Look for what contradicts itself in a trace.",
    "analyze": "Find wait states: compute the severity cube of a trace.",
    "show": "Print severities as coloured trees.",
    "report": "Write severities as one HTML file for a browser.",
    "export": "Write severities or tables in other formats.",
}


class LazyGroup(click.Group):
    """A group that imports a command only to run it, so that --help is instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in their order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"tracecols.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; errors raised on purpose become a message and exit code 1."""
        try:
            return super().invoke(ctx)
        except TracecolsError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(1)
        except KeyboardInterrupt:
            click.echo("interrupted; nothing was left behind", err=True)
            ctx.exit(130)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tracecols")
def group() -> None:
    """Find out why a parallel program is slow: convert its event trace, search it for wait states, look at the result.

    \b
      tracecols convert scorep_run/traces.otf2 -o run.trace
      tracecols analyze run.trace
      tracecols show run.severity
    """


def main() -> None:
    """Run the command line."""
    if hasattr(sys.stdout, "reconfigure") and (sys.stdout.encoding or "").lower() not in ("utf-8", "utf8"):
        sys.stdout.reconfigure(errors="replace")
    group()
