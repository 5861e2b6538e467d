"""The command line: a thin layer with one file per command, imported when the command is called."""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
import warnings
from importlib import import_module
from typing import TextIO

import click

from tracecols.cli.output import echo
from tracecols.cli.streams import name_streams
from tracecols.errors import ForeignCubeWarning, KernelCacheWarning, OpenClusterWarning, TracecolsError
from tracecols.given.files import MORE_THREADS, NO_THREAD
from tracecols.given.printable import printable
from tracecols.version import __version__
from tracecols.work.heap import WORKING, set_heap

COMMANDS = {
    "convert": "Convert a trace archive to a store.",
    "info": "Print the contents of a trace, or how a cube was made.",
    "check": "Check a trace for inconsistencies.",
    "analyze": "Find wait states: compute the severity cube of a trace.",
    "diagnose": "Diagnose a run on one screen: what costs most, where, and who causes it.",
    "correct": "Correct unsynchronised clocks: write the trace with times that satisfy all clock conditions.",
    "filter": "Find regions that are not worth recording, and write a Score-P filter.",
    "phases": "Propose phases, such as iterations, for tracecols analyze --phases.",
    "enhance": "Write compound tables and events with pointers as Parquet files.",
    "patterns": "List the properties that analyses search for, or describe one.",
    "show": "Print severities as coloured trees.",
    "view": "Show the timeline of a trace in a browser, from the whole run to single events.",
    "report": "Write severities as one HTML file for a browser.",
    "efficiency": "Print how efficient runs are, and how they scale.",
    "what-if": "Predict a run with faster code, another network or balanced processes.",
    "devices": "Print device activity by training step, which ranks are late and why, and kernels by time.",
    "compare": "Compare the severities of runs: what changed, how they scale.",
    "runs": "Keep the cubes of many runs with their parameters; find what changed, where and since when.",
    "rules": "Evaluate performance rules: what dominates, and who keeps whom waiting.",
    "export": "Write severities or tables in other formats.",
    "serve": "Answer queries from programs, such as assistants, about traces and cubes.",
    "demo": "Run the main commands on a small sample trace, and open the report.",
}


class Ended(KeyboardInterrupt):
    """The process received a termination signal; it cleans up as after an interrupt."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def _text_of(error: OSError) -> str:
    return f"error: {error.filename}: {error.strerror}"


def _text_of_memory(command: str | None, error: MemoryError) -> str:
    """Return the message for a command that ran out of memory."""
    what = f"error: there is not enough memory{f': {error}' if str(error) else ''}\n  "
    if command == "analyze":
        return what + (
            "limit what the analysis takes, so that more goes to files: --memory 2GB; or give it fewer "
            "threads: --jobs 1"
        )
    return what + "give the command more memory, or fewer threads where it has --jobs"


def _end(number: int, _frame: object) -> None:
    raise Ended(number)


class LazyGroup(click.Group):
    """A group that imports a command only to run it, so that --help is instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in their order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"tracecols.cli.{module}"), module)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse arguments with NUL characters, which no path and no name can contain."""
        if any("\0" in argument for argument in args):
            raise click.UsageError("an argument has a NUL character, which no path and no name can have", ctx)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is called; if it does not exist, suggest similar names."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, 2)
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean {' or '.join(near)}?", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    @staticmethod
    def _show_warning(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, ForeignCubeWarning | KernelCacheWarning | OpenClusterWarning):
            echo(f"note: {message}", err=True)
        else:
            echo(warnings.formatwarning(message, category, filename, lineno, line), err=True, nl=False)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; `TracecolsError`, `OSError` of a named file, `MemoryError` and a lack of threads become a
        message and exit code 1, warnings become notes."""
        try:
            with warnings.catch_warnings():
                warnings.showwarning = self._show_warning
                return super().invoke(ctx)
        except TracecolsError as error:
            echo(f"error: {error.for_shell}", err=True)
            ctx.exit(1)
        except OSError as error:
            if error.filename is None:
                raise
            echo(_text_of(error), err=True)
            ctx.exit(1)
        except MemoryError as error:
            echo(_text_of_memory(ctx.invoked_subcommand, error), err=True)
            ctx.exit(1)
        except RuntimeError as error:
            if str(error) != NO_THREAD:
                raise
            echo(f"error: the system starts no more threads of this user or container\n  {MORE_THREADS}", err=True)
            ctx.exit(1)
        except click.UsageError as error:
            # click prints it
            raise click.UsageError(printable(error.format_message()), error.ctx) from error
        except KeyboardInterrupt as reason:
            echo("interrupted; nothing was left behind", err=True)
            ctx.exit(128 + (reason.number if isinstance(reason, Ended) else signal.SIGINT))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tracecols")
def group() -> None:
    """Find out why a parallel program is slow: convert its event trace, search it for wait states, view the result.

    \b
      tracecols convert scorep_run/traces.otf2 -o run.trace
      tracecols analyze run.trace
      tracecols show run.severity
    """


def main() -> None:
    """Run the command line."""
    # commands are at work from their start to their end (`heap.working`)
    set_heap(WORKING)
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # OpenBLAS starts a thread per core when NumPy is imported, and these threads spin while idle: 20 of 140 ms; there
    # is no linear algebra here
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # by default Python's garbage collector runs after every 700 new objects, which took 7 % of the time of a small
    # analysis; the modules alone create 100,000 objects, none of them garbage
    gc.set_threshold(250_000)
    name_streams()
    for name in ("SIGTERM", "SIGHUP"):
        # nohup has SIGHUP ignored
        if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) != signal.SIG_IGN:
            signal.signal(getattr(signal, name), _end)
    try:
        try:
            group()
        finally:
            # the garbage collection at interpreter exit took a tenth of the time of a small analysis and finds nothing
            gc.freeze()
            # flush here: at interpreter exit an error could not be reported
            sys.stdout.flush()
    except OSError as error:
        if error.filename is None and error.errno != errno.EPIPE:
            raise
        if error.filename is not None:
            echo(_text_of(error), err=True)
        sys.exit(1)
