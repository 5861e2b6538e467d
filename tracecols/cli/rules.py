"""tracecols rules"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracecols.cli.options import put_once
from tracecols.cli.output import echo, echo_json, echo_parts
from tracecols.cli.vocabulary import PATH, option
from tracecols.schema.severity import DEFAULT

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
        put_once(result, key.strip(), what)
    return result


def open_source(path: Path, jobs: int | None) -> SeverityCube | Trace:
    """Open a cube (of this or another tool) or a store."""
    from tracecols.export.cube_read import is_cube, read_cube

    if is_cube(path):
        return read_cube(path)
    # imported here: it loads pandas and numba, which cubes do not need
    from tracecols.trace import Trace

    return Trace(path, jobs=jobs)


@click.command()
@click.argument("source", metavar="[CUBE|STORE]", type=PATH, required=False)
@option("given", "Set a parameter.", callback=settings, metavar="RULE.PARAMETER=VALUE")
@click.option("--rule", "names", multiple=True, metavar="RULE", help="Only this rule; may be given several times.")
@option("within", "Only this call path, region or pattern, and its callees.", old=("-c", "--call-path"))
@option("conventions", "For a store: whose rules to follow where analysers differ.", default=DEFAULT, show_default=True)
@option("with_startup", "Include start-up and shutdown, which are excluded by default without --within.")
@option("rows", "Statements to print per rule.", default=3, old=("--statements",))
@option("as_json", "Print JSON.")
@click.option("--list", "listed", is_flag=True, help="Print the rules and their parameters.")
@option("jobs")
def rules(
    source: Path | None,
    given: dict[str, float | str],
    names: tuple[str, ...],
    within: str | None,
    conventions: str,
    with_startup: bool,
    rows: int,
    as_json: bool,
    listed: bool,
    jobs: int | None,
) -> None:
    """Evaluate performance rules: what dominates, how often, how unevenly, and who keeps whom waiting.

    \b
    A severity CUBE (.severity, .cubex, .cube) is enough for most rules; some need the tables of the STORE.
      tracecols rules run.trace --set big_messages.threshold=1MB --set slow_slaves.master=3
    """
    from rich.text import Text

    from tracecols.errors import RuleError
    from tracecols.report.text import text_width
    from tracecols.rules.display import render
    from tracecols.rules.evaluate import RULES, choose_rules, evidence_of, judge, plain, read_settings
    from tracecols.severity.focus import words_of

    if listed:
        for rule in RULES.values():
            echo(f"{rule.id}: {rule.summary}" + ("  (needs the store)" if rule.needs == "trace" else ""))
            for name, p in rule.parameters.items():
                echo(f"    {name} = {p.show(p.default) or 'none'}: {p.doc}")
        return
    if source is None:
        raise click.UsageError("Missing argument 'CUBE|STORE' (or --list).")
    try:
        read_settings(given)
        chosen = choose_rules(names or None)
    except RuleError as error:
        raise click.UsageError(str(error)) from None
    evidence = evidence_of(open_source(source, jobs), chosen, given, within, conventions, with_startup=with_startup)
    found = judge(evidence, chosen)
    if as_json:
        echo_json(plain(found))
        return
    if (focus := words_of(evidence.cube.facts)) and within is None and not with_startup:
        echo_parts([Text(f"focus: {focus}; --with-startup shows all\n", "yellow")])
    echo_parts(render(found, rows, text_width()))
