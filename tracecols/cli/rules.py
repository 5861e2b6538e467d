"""tracecols rules"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracecols.cli.output import echo
from tracecols.schema.severity import CONVENTIONS, DEFAULT

if TYPE_CHECKING:
    from tracecols.severity.cube import SeverityCube
    from tracecols.trace import Trace


def settings(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, float | str]:
    """Split RULE.PARAMETER=VALUE."""
    result: dict[str, float | str] = {}
    for value in values:
        key, equals, what = value.partition("=")
        if not equals or "." not in key:
            raise click.BadParameter(f"{value!r} is not RULE.PARAMETER=VALUE, such as big_messages.threshold=1MB")
        result[key.strip()] = what
    return result


def open_source(path: Path, jobs: int | None) -> SeverityCube | Trace:
    """Open a cube, of this or another tool, or a store, whichever it is."""
    from tracecols.export.cube_read import is_cube, read_cube

    if is_cube(path):
        return read_cube(path)
    # not above: it brings pandas and numba, which a cube needs not
    from tracecols.trace import Trace

    return Trace(path, jobs=jobs)


@click.command()
@click.argument("source", metavar="[SEVERITY|STORE]", type=click.Path(path_type=Path), required=False)
@click.option("--set", "given", multiple=True, callback=settings, metavar="RULE.PARAMETER=VALUE", help="A parameter.")
@click.option("--rule", "names", multiple=True, metavar="RULE", help="Only this rule; may be given several times.")
@click.option(
    "-c", "--call-path", metavar="C", help="Look at this region and what it calls: a call path, region or pattern."
)
@click.option(
    "--conventions",
    type=click.Choice(list(CONVENTIONS)),
    default=DEFAULT,
    show_default=True,
    help="Of a store: whose rules to follow where analysers differ.",
)
@click.option(
    "--with-startup", is_flag=True, help="Count start-up and shutdown, too; without -c they are set apart by default."
)
@click.option("--statements", default=3, show_default=True, type=click.IntRange(0), help="How many to name per rule.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--list", "listed", is_flag=True, help="Print the rules and their parameters.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Threads.  [default: one per core]")
def rules(
    source: Path | None,
    given: dict[str, float | str],
    names: tuple[str, ...],
    call_path: str | None,
    conventions: str,
    with_startup: bool,
    statements: int,
    as_json: bool,
    listed: bool,
    jobs: int | None,
) -> None:
    """Evaluate performance rules: what dominates, how often, how unevenly, and who keeps whom waiting.

    \b
    A SEVERITY cube (.severity, .cubex, .cube) will do for most rules; some need the tables of the STORE.
      tracecols rules run.trace --set big_messages.threshold=1MB --set slow_slaves.master=3
    """
    from tracecols.errors import RuleError
    from tracecols.report.screen import Screen
    from tracecols.rules.display import render
    from tracecols.rules.evaluate import RULES, evaluate, find_rule, plain, read_settings
    from tracecols.severity.cube import SeverityCube
    from tracecols.severity.focus import set_apart

    if listed:
        for rule in RULES.values():
            echo(f"{rule.id}: {rule.summary}" + ("  (needs the store)" if rule.needs == "trace" else ""))
            for name, p in rule.parameters.items():
                echo(f"    {name} = {p.show(p.default) or 'none'}: {p.doc}")
        return
    if source is None:
        raise click.UsageError("Missing argument 'SEVERITY|STORE' (or --list).")
    try:
        read_settings(given)
        chosen = [find_rule(name).id for name in names] or None
    except RuleError as error:
        raise click.UsageError(str(error)) from None
    opened = open_source(source, jobs)
    found = evaluate(opened, chosen, given, call_path=call_path, conventions=conventions, with_startup=with_startup)
    if as_json:
        import json

        echo(json.dumps(plain(found), indent=1))
        return
    console = Screen(soft_wrap=True)
    if call_path is None and not with_startup and (not isinstance(opened, SeverityCube) or set_apart(opened).any()):
        console.print("focus: MPI_Init to MPI_Finalize; --with-startup counts the rest\n", style="yellow")
    for part in render(found, statements):
        console.print(part)
