"""The options that several commands share, or that were renamed: each is declared once, and the commands and the table
in docs/commands.md are generated from the declarations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import click

from tracecols.cli.options import latency, memory, named_values, numbers, part_of_whole, seconds
from tracecols.cli.output import echo
from tracecols.schema.severity import CONVENTIONS

Command = Callable[..., Any]


def in_percent(text: str) -> str:
    """Return a share as text in percent; earlier, plain numbers were in percent."""
    return text if text.strip().endswith("%") else f"{text}%"


class Term(NamedTuple):
    """An option with the same meaning in all commands that have it."""

    name: str
    """Name of the parameter that commands receive."""
    spelled: tuple[str, ...]
    """Spellings on the command line."""
    meaning: str
    """One sentence, for help texts and for the table of the documentation."""
    value: str = ""
    """Placeholder of its value; empty for a flag."""
    how: Mapping[str, Any] = MappingProxyType({})
    """Keywords of `click.option`: type, callback, default."""
    old: Mapping[str, Callable[[str], str]] = MappingProxyType({})
    """Earlier spellings, which still work with a note; each with a function that converts its value to the present
    form."""


def _renamed(*spelled: str) -> Mapping[str, Callable[[str], str]]:
    return MappingProxyType(dict.fromkeys(spelled, str))


PATH = click.Path(path_type=Path)
"""The type of paths that commands take, whether they exist or not."""
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)

TERMS = {
    term.name: term
    for term in (
        Term("output", ("-o", "--output"), "The file or folder to write.", "FILE", {"type": PATH}),
        Term("force", ("--force",), "Replace an output that was made in another way, or any file."),
        Term("as_json", ("--json",), "Print the output as JSON."),
        Term("no_browser", ("--no-browser",), "Do not open a browser."),
        Term("jobs", ("--jobs",), "Threads.  [default: one per core]", "N", {"type": click.IntRange(1)}),
        Term(
            "rows",
            ("--rows",),
            "Maximum number of findings, instances, statements or table rows to print.",
            "N",
            {"type": click.IntRange(0), "show_default": True},
            _renamed("--findings", "--first", "--statements"),
        ),
        Term(
            "memory",
            ("--memory",),
            "Memory limit of the analysis, such as 4GB or 512MiB; the rest goes to files.  [default: half of what is "
            "free]",
            "SIZE",
            {"callback": memory},
        ),
        Term(
            "min_share",
            ("--min-share",),
            "Leave out values below this share.",
            "SHARE",
            {"callback": part_of_whole},
            {"--threshold": in_percent},
        ),
        Term(
            "properties",
            ("-p", "--property"),
            "A property, by id or title; but for show and view, several separated by commas, or one per -p.",
            "P",
            {"multiple": True},
        ),
        Term(
            "within",
            ("--within",),
            "Only this region, or pattern, and its callees.",
            "REGION",
            {},
            _renamed("-c", "--call-path"),
        ),
        Term("start", ("--from",), "Only the part of the trace from this time on.", "TIME", {"callback": seconds}),
        Term("stop", ("--to",), "Only the part of the trace before this time.", "TIME", {"callback": seconds}),
        Term(
            "locations",
            ("--locations",),
            "Only these locations: numbers, or text such as 'rank 0-3 thread 1'.",
            "0,1,4-7",
            {"callback": numbers},
        ),
        Term(
            "with_startup",
            ("--with-startup",),
            "Include start-up and shutdown, which are excluded by default.",
            old=_renamed("--whole-run"),
        ),
        Term(
            "conventions",
            ("--conventions",),
            f"Whose rules to follow where analysers differ: {', '.join(CONVENTIONS.values())}.",
            f"[{'|'.join(CONVENTIONS)}]",
            {"type": click.Choice(list(CONVENTIONS))},
        ),
        Term(
            "patterns",
            ("--patterns",),
            "Also use the patterns declared in this file.",
            "FILE.py",
            {"type": FILE, "multiple": True},
        ),
        Term("latency", ("--latency",), "Minimum time of a message, such as 2us.", "TIME", {"callback": latency}),
        Term("given", ("--set",), "Set a parameter of a property or rule.", "NAME.PARAMETER=VALUE", {"multiple": True}),
        Term("required", ("--require",), "Exit code 3 if this is not met.", "REQUIREMENT"),
        Term(
            "where",
            ("--where",),
            "Only runs whose parameter has this value; if given several times, all must match.",
            "NAME=VALUE",
            {"multiple": True, "callback": named_values},
        ),
        Term(
            "along",
            ("--along",),
            "The parameter that orders the runs.  [default: the only one that varies, else the order in which runs "
            "were added]",
            "NAME",
            {"default": ""},
        ),
        Term(
            "last",
            ("--last",),
            "Only the last N positions: 2 compares the newest with the one before.",
            "N",
            {"type": click.IntRange(1)},
        ),
        Term(
            "phases",
            ("--phases",),
            "Divide by phases: instances of a region, or of the end of a call path; with from:CALL, from one call "
            "to the next.",
            "REGION",
        ),
        Term(
            "subdomains",
            ("--subdomains",),
            "The subdomain of the application for each location: a file with the columns rank, thread (optional) and "
            "subdomain.",
            "FILE.csv",
            {"type": FILE},
        ),
        Term(
            "metrics",
            ("--metric",),
            "A property computed from others, or a file of such definitions.",
            "'NAME = FORMULA'|FILE",
            {"multiple": True},
        ),
        Term("ideal_network", ("--ideal-network",), "Replay the trace on an ideal network, even if it is large."),
    )
}
"""The shared options by name of the parameter."""


class TermOption(click.Option):
    """An option of the vocabulary; its earlier spellings work, with a note on standard error."""

    def __init__(self, *arguments: Any, term: Term, old: tuple[str, ...] = (), **how: Any) -> None:
        super().__init__(*arguments, **how)
        self.term, self.old = term, old

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Add the option and its earlier spellings to the parser of a command."""
        super().add_to_parser(parser, ctx)
        how = {"action": "append" if self.multiple else "store"}
        action = {"action": "store_const", "const": True} if self.is_flag else how
        for spelled in self.old:
            parser.add_option(self, (spelled,), dest=self.name, nargs=self.nargs, **action)
            known = parser._long_opt if spelled.startswith("--") else parser._short_opt
            known[spelled].process = self._noting(spelled, known[spelled].process)

    def _noting(self, spelled: str, process: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        """Return a function that processes a value given under an earlier spelling, and prints a note."""

        def take(value: Any, state: Any) -> None:
            echo(f"note: {spelled} is called {self.term.spelled[-1]} now", err=True)
            process(self.term.old[spelled](value) if isinstance(value, str) else value, state)

        return take


def option(
    name: str, meaning: str = "", *, called: str = "", old: tuple[str, ...] = (), **how: Any
) -> Callable[[Command], Command]:
    """Return the decorator that adds an option of the vocabulary to a command.

    `meaning` replaces the general help text; `called` is the name of the command's parameter if it differs from that of
    the term; `old` are the earlier spellings in this command; other keywords replace those of the term.
    """
    term = TERMS[name]
    given: dict[str, Any] = {"help": meaning or term.meaning, **term.how, **how}
    given |= {"metavar": given.get("metavar", term.value)} if term.value else {"is_flag": True}
    if given.get("default") is None:
        given.pop("show_default", None)
    return click.option(*term.spelled, called or name, cls=TermOption, term=term, old=old, **given)


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that adds several options to a command, in this order."""

    def decorate(command: Command) -> Command:
        for add in reversed(options):
            command = add(command)
        return command

    return decorate


def grouped(**groups: Any) -> Callable[[Command], Command]:
    """Return a decorator that passes related options to a command as one named tuple.

    `groups` are classes of named tuples by name of the argument; their fields have the names of the options'
    parameters.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def call(*arguments: Any, **given: Any) -> Any:
            for name, group in groups.items():
                given[name] = group(**{part: given.pop(part) for part in group._fields})
            return command(*arguments, **given)

        return call

    return decorate


class Part(NamedTuple):
    """The part of a run that a command looks at."""

    within: str | None
    start: float | None
    stop: float | None

    @property
    def is_piece(self) -> bool:
        """Whether a time range is given."""
        return self.start is not None or self.stop is not None


part_options = together(option("within"), option("start"), option("stop"))
"""Decorator that adds the options of `Part` to a command."""


def all_commands(group: click.Group) -> Iterator[tuple[str, click.Command]]:
    """Yield name and command of all commands, including those of subgroups."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", of) for inner, of in all_commands(command))
        elif command is not None:
            yield name, command


def table() -> str:
    """Return the vocabulary as a Markdown table: spellings, meanings and commands of the options."""
    from tracecols.cli import group

    users: dict[str, list[str]] = {name: [] for name in TERMS}
    renamed: dict[str, dict[str, list[str]]] = {name: {} for name in TERMS}
    for name, command in all_commands(group):
        for parameter in command.params:
            if isinstance(parameter, TermOption):
                users[parameter.term.name].append(name)
                for old in parameter.old:
                    renamed[parameter.term.name].setdefault(old, []).append(name)
    lines = ["| option | meaning | commands | was |", "|---|---|---|---|"]
    for term in TERMS.values():
        value = "" if not term.value else f" {term.value}".replace("|", "\\|")
        spelled = ", ".join(f"`{text}`" for text in term.spelled)
        was = ", ".join(f"`{old}` ({', '.join(of)})" for old, of in renamed[term.name].items())
        lines.append(
            f"| {spelled}{value} | {term.meaning.replace('  [', ' [')} | {', '.join(users[term.name])} | {was} |"
        )
    return "\n".join(lines) + "\n"
