"""Evaluate rules on a cube or a trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tracecols.errors import RuleError
from tracecols.given.arguments import as_texts, did_you_mean, show
from tracecols.given.printable import finite
from tracecols.rules import costs, waits
from tracecols.rules.base import Evidence, Result, Rule, Verdict, rules_in
from tracecols.schema.severity import DEFAULT
from tracecols.severity import SeverityCube
from tracecols.severity.focus import below, set_apart

if TYPE_CHECKING:
    import pandas as pd

    from tracecols.trace import Trace

RULES: dict[str, Rule] = {r.id: r for module in (costs, waits) for r in rules_in(module)}
"""All rules, in the order of the 1999 class library."""

NEEDS_TRACE = "needs the trace: give the store instead of the cube"


def find_rule(name: str) -> Rule:
    """Return a rule by id. Raises RuleError if there is none, with the nearest ids."""
    if name not in RULES:
        hint = did_you_mean(name, RULES, f"there are {', '.join(RULES)}")
        raise RuleError(f"no rule {show(name)}\n  {hint}")
    return RULES[name]


def read_settings(settings: Mapping[str, float | str]) -> dict[str, dict[str, float | str]]:
    """Return the parameters of all rules: the given values, else their defaults.

    Parameters
    ----------
    settings : mapping
        By `rule.parameter`: a number in the parameter's unit, or a text with a unit of its own, such as 1MB, 10us, 5%.

    Raises
    ------
    RuleError
        If there is no such rule or parameter, or the value does not fit.
    """
    if not isinstance(settings, Mapping):
        raise RuleError(
            f"values of parameters are given by name, not as {show(settings)}\n"
            "  such as {'big_messages.threshold': '1MB'}"
        )
    values = {r.id: {of: p.default for of, p in r.parameters.items()} for r in RULES.values()}
    for key, value in settings.items():
        name, _, parameter = key.partition(".")
        known = find_rule(name).parameters
        try:
            if parameter not in known:
                raise RuleError(f"rule {name!r} has no parameter {parameter!r}\n  it has {', '.join(known) or 'none'}")
            values[name][parameter] = known[parameter].read(parameter, value, RuleError)
        except RuleError as error:
            raise RuleError(f"{key}: {error}") from None
    return values


def evaluate(
    source: SeverityCube | Trace,
    rules: str | Iterable[str] | None = None,
    settings: Mapping[str, float | str] | None = None,
    *,
    call_path: str | None = None,
    conventions: str = DEFAULT,
    with_startup: bool = False,
) -> list[Verdict]:
    """Evaluate rules.

    Parameters
    ----------
    source : SeverityCube or Trace
        With a cube, rules that need tables of the trace are not evaluated, and say so.
    rules : str or iterable of str, optional
        Their ids; all by default.
    settings : mapping, optional
        Parameters that differ from their defaults (see `read_settings`).
    call_path : str, optional
        A path, a region or a shell pattern: look at this region and all that it calls only.
    conventions : str, optional
        For a trace: whose rules to follow where analysers differ.
    with_startup : bool, optional
        Count start-up and shutdown, too; without a call path they are set apart by default (docs/diagnosis.md).

    Returns
    -------
    list of Verdict
        In the order of `RULES`.

    Raises
    ------
    RuleError
        If a rule or parameter does not exist, or a value does not fit.

    Examples
    --------
    >>> found = tracecols.rules.evaluate(trace, settings={"big_messages.threshold": "1MB"})  # doctest: +SKIP
    >>> tracecols.rules.frame(found).sort_values("severity")  # doctest: +SKIP
    """
    chosen = choose_rules(rules)
    return judge(evidence_of(source, chosen, settings, call_path, conventions, with_startup=with_startup), chosen)


def choose_rules(names: str | Iterable[str] | None = None) -> list[Rule]:
    """Return rules by id, in the order of `RULES`; all by default. Raises RuleError if one does not exist."""
    given = as_texts(names, "rules", RuleError) if names is not None else list(RULES)
    chosen = [find_rule(name) for name in given]
    return [r for r in RULES.values() if r in chosen]


def evidence_of(
    source: SeverityCube | Trace,
    rules: Iterable[Rule],
    settings: Mapping[str, float | str] | None = None,
    call_path: str | None = None,
    conventions: str = DEFAULT,
    *,
    with_startup: bool = False,
) -> Evidence:
    """Return the input of rules, as `evaluate` takes it: a trace is analysed. The facts of its cube describe the focus
    if there is one."""
    parameters = read_settings({} if settings is None else settings)
    if isinstance(source, SeverityCube):
        cube, trace = source, None
    else:
        from tracecols.analysis.opened import OpenedTrace
        from tracecols.patterns.base import Family
        from tracecols.search.choice import check_conventions
        from tracecols.search.cube import analyze_model

        if not isinstance(source, OpenedTrace):
            raise RuleError(
                f"rules are evaluated on a trace or a cube, not on {show(source)}\n  open it: tracecols.open"
            )
        check_conventions(conventions)
        family = Family("rules")
        more = [p for r in rules if r.properties for p in r.properties(**parameters[r.id])]
        family.properties = [replace(p, conventions=conventions, family=family.name) for p in more]
        cube, trace = analyze_model(source.model_of(with_focus=True), conventions, [family]), source
    within = np.ones(len(cube.call_paths), bool)
    if call_path is not None:
        within = below(cube, cube.find_call_paths(call_path))
    elif not with_startup:
        within = ~set_apart(cube)
        cube = cube.focused()
    return Evidence(cube, trace, within, parameters)


def judge(evidence: Evidence, rules: Iterable[Rule]) -> list[Verdict]:
    """Evaluate rules on what `evidence_of` returned for them."""
    whole = evidence.seconds(evidence.cells("time"))
    return [_verdict(evidence, rule, whole) for rule in rules]


def _verdict(evidence: Evidence, rule: Rule, whole: float) -> Verdict:
    can = rule.needs == "cube" or evidence.trace is not None
    result = evidence.result(rule) if can else Result(np.nan, note=NEEDS_TRACE)
    # in a cube of changes the whole may shrink while a severity grows
    share = result.severity / abs(whole) if whole else 0.0
    values = evidence.settings[rule.id]
    return Verdict(
        rule.id, rule.title, result.severity, share, rule.confidence, tuple(result.statements), values, result.note
    )


def frame(verdicts: Iterable[Verdict]) -> pd.DataFrame:
    """Return verdicts as a table: one row per rule.

    Parameters
    ----------
    verdicts : iterable of Verdict
        What `evaluate` returns.

    Returns
    -------
    DataFrame
        rule, title, severity (seconds), share, confidence, names (list of str), note.
    """
    import pandas as pd

    columns = ("rule", "title", "severity", "share", "confidence", "names", "note")
    rows = [{**vars(f), "names": [s.name for s in f.statements]} for f in verdicts]
    return pd.DataFrame(rows, columns=list(columns))


def plain(verdicts: Iterable[Verdict]) -> list[dict[str, Any]]:
    """Return verdicts as plain lists and numbers for JSON; null for a rule that could not be evaluated."""
    found: list[dict[str, Any]] = finite(
        [{**vars(f), "parameters": dict(f.parameters), "statements": list(map(vars, f.statements))} for f in verdicts]
    )
    return found
