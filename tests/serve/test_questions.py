"""`tracecols serve --mcp`, asked by the SDK's own client over standard input and output: sixty questions on traces whose
answers are known."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import DATA, LONG, SHARED
from support.late_senders import late_once

from benchmarks import generate
from tracecols.converters.otf2.write import write_archive
from tracecols.serve.pages import MOST, count_tokens

# the import takes a second, and is left to the tests that need it
pytestmark = pytest.mark.skipif(
    find_spec("mcp") is None, reason="the SDK of the Model Context Protocol is not installed (extra mcp)"
)

INJECTED = SHARED / "injected"

SIMULATED = {
    "sweep": ("mpi_latesender", "mpi_wait_nxn"),
    "halo": ("mpi_latesender", "mpi_nxn_completion"),
    "multizone": ("omp_ibarrier_wait", "mpi_latebroadcast"),
    "master": ("mpi_latesender", "mpi_barrier_wait"),
    "fft": ("mpi_wait_nxn", "mpi_nxn_completion"),
    "irregular": ("mpi_latereceiver", "mpi_wait_nxn"),
}
"""Simulated programs, with a property asked for by location, and one whose total is asked for."""

KEPT = {"late_sender": "mpi_latesender", "hybrid_2x3": "omp_ibarrier_wait", "coll": "mpi_wait_nxn"}
"""Recorded programs with cells of a reference analyser, and the property asked for."""


@cache
def simulated(program: str) -> generate.Generated:
    """Return a simulated program, which includes its true waits."""
    return generate.make(program, 4, 2 if program == "multizone" else 1, 3_000, seed=5)


@dataclass(frozen=True)
class Question:
    """A question in words, its tool and arguments, a function that takes the result from the answer, and the truth."""

    words: str
    tool: str
    arguments: Mapping[str, Any]
    found: Callable[[dict[str, Any]], Any]
    expected: Callable[[], Any]


def rows(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of an answer by column."""
    return [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]


def by_location(answer: dict[str, Any]) -> dict[tuple[int, int], float]:
    """Return values by rank and thread."""
    return {(row["rank"], row["thread"]): pytest.approx(row["value"], rel=1e-8) for row in rows(answer)}


def true_seconds(program: str, name: str) -> dict[tuple[int, int], float]:
    """Return the true waiting times of a property in a simulated program, in seconds, by rank and thread."""
    waits, n_threads = simulated(program).truth.waits[name], 2 if program == "multizone" else 1
    return {divmod(i, n_threads): ticks / 1e9 for i, ticks in enumerate(waits.tolist()) if ticks}


def near(value: float) -> Any:
    """Return a value for comparison with a number of an answer, which has nine digits."""
    return pytest.approx(value, rel=1e-8)


def of_simulated() -> list[Question]:
    """Return five questions on each simulated program: 30."""
    found = []
    for p, (name, other) in SIMULATED.items():
        whole = {"path": p, "with_startup": True, "min_share": 0}
        n = "select count(*) n from messages"
        found += [
            Question(f"How many events has {p}?", "open", {"path": p}, lambda a: a["n_events"], lambda p=p: simulated(p).truth.n_events),
            Question(f"How many messages does {p} send?", "sql", {"path": p, "query": n}, lambda a: rows(a)[0]["n"], lambda p=p: simulated(p).truth.n_messages),
            Question(
                f"Which threads of {p} have {name}?", "show", {**whole, "property": name, "call_path": "*"},
                by_location, lambda p=p, name=name: true_seconds(p, name),
            ),
            Question(
                f"How much {other} is in {p}?", "show", {**whole, "property": other},
                lambda a: (a["value"], a["unit"]), lambda p=p, name=other: (near(sum(true_seconds(p, name).values())), "sec"),
            ),
            Question(
                f"What waits in {name} of {p}?", "waits", {"path": p, "property": name},
                lambda a: (a["seconds_of_all"], a["units"]["seconds"]), lambda p=p, name=name: (near(sum(true_seconds(p, name).values())), "sec"),
            ),
        ]  # fmt: skip
    return found


def reference(program: str) -> pd.DataFrame:
    """Return the cells of a recorded program by the reference analyser."""
    cells = pd.read_parquet(DATA / program / "reference.parquet")
    return cells[(cells.property == KEPT[program]) & (cells.value > 0)]


def of_kept() -> list[Question]:
    """Return two questions on each recorded program: 6."""
    found = []
    for p, name in KEPT.items():
        whole = {"path": p, "property": name, "with_startup": True}
        most = reference(p).groupby("call_path").value.sum()
        found += [
            Question(f"How much {name} is in {p}?", "show", whole, lambda a: a["value"], lambda p=p: near(reference(p).value.sum())),
            Question(
                f"Which threads have it on one call path of {p}?", "show", {**whole, "call_path": most.idxmax()},
                by_location, lambda p=p, most=most: reference(p)[lambda c: c.call_path == most.idxmax()].set_index(["rank", "thread"]).value.to_dict(),
            ),
        ]  # fmt: skip
    return found


def of_late_once() -> list[Question]:
    """Return questions on a program that is worked out by hand: 12."""
    path = {"path": "late_once"}
    waits = ("property", "rank", "path", "cause_rank", "cause_path", "n_waits", "seconds", "longest_begin_seconds")
    late = ("mpi_latesender", 0, "main/MPI_Recv", 1, "main/MPI_Send", 1, 50, 15)

    def first(answer: dict[str, Any], *columns: str) -> tuple[Any, ...]:
        return tuple(rows(answer)[0][c] for c in columns)

    return [
        Question("What ranks are there?", "open", path, lambda a: [r["rank"] for r in rows(a)], lambda: [0, 1]),
        Question("How long was the run?", "open", path, lambda a: (a["span"], a["units"]["span"]), lambda: (73, "sec")),
        Question("What is wrong with it?", "diagnose", path, lambda a: first(a, "rank", "region"), lambda: (1, "solve")),
        Question("What does it cost?", "diagnose", path, lambda a: first(a, "seconds"), lambda: (50,)),
        Question("How long did it run between MPI_Init and MPI_Finalize?", "diagnose", path, lambda a: a["runtime"], lambda: 65),
        Question("Which waits does that explain?", "waits", {**path, "finding": 1}, lambda a: first(a, "property", "call_path", "rank", "value"), lambda: ("mpi_latesender", "main/MPI_Recv", 0, 50)),
        Question("Who waits for rank 1?", "waits", {**path, "cause_rank": 1, "property": "Late Sender"}, lambda a: first(a, *waits), lambda: late),
        Question("What waits for MPI_Send?", "waits", {**path, "cause": "MPI_Send"}, lambda a: first(a, *waits), lambda: late),
        Question("Does anybody wait for rank 0?", "waits", {**path, "cause_rank": 0, "property": "mpi_latesender"}, lambda a: (a["waits"], a["rows"]), lambda: (0, [])),
        Question("What if solve took half its time?", "what_if", {**path, "scale": {"solve": 0.5}}, lambda a: (a["recorded_runtime"], a["runtime"], a["saving"]), lambda: (65, 35, 30)),
        Question("Which call path is worth making faster?", "what_if", path | {"table": "savings"}, lambda a: first(a, "path", "computation", "saving"), lambda: ("main/solve", 60, 30)),
        Question("How many bytes did rank 1 send?", "sql", {**path, "query": "select sum(length) as length from messages where send_location = 1"}, lambda a: (rows(a), a["units"]), lambda: ([{"length": 1024}], {"length": "bytes"})),
    ]  # fmt: skip


def of_compared() -> list[Question]:
    """Return questions about two runs of the same programs: 2."""
    name = "mpi_latesender"

    def change() -> tuple[float, float]:
        of = sum(true_seconds("halo", name).values())
        return near(of), near(sum(true_seconds("sweep", name).values()) - of)

    asked = {"paths": ["halo", "sweep"], "property": name, "table": "properties", "with_startup": True}
    same = {"paths": ["halo", "halo"], "with_startup": True}
    return [
        Question("How does waiting for senders change?", "compare", asked, lambda a: (rows(a)[0]["halo"], rows(a)[0]["change"]), change),
        Question("Did anything change?", "compare", same, lambda a: a["rows"], list),
    ]  # fmt: skip


def truth(program: str) -> dict[str, Any]:
    """Return the fault that was injected into a program."""
    return json.loads((INJECTED / program / "truth.json").read_text())


def is_the_fault(program: str) -> Callable[[dict[str, Any]], bool]:
    """Return a check whether the first finding of an answer names region, rank and thread of the fault."""

    def check(answer: dict[str, Any]) -> bool:
        known, found = truth(program), rows(answer)[0]
        regions = (known["region"], *known["also_right"])
        is_there = any(region in f"{found['region']} {found['cause']}" for region in regions)
        return is_there and known["rank"] in (None, found["rank"]) and known["thread"] in (None, found["thread"])

    return check


def of_injected() -> list[Question]:
    """Return a question on each program with an injected fault, if these are beside the repository: 11."""
    programs = sorted(p.parent.name for p in INJECTED.glob("*/truth.json"))
    return [
        Question(f"What is wrong with {p}?", "diagnose", {"path": p}, is_the_fault(p), lambda: True) for p in programs
    ]


QUESTIONS = [*of_late_once(), *of_compared(), *of_kept(), *of_simulated(), *of_injected()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with archives of the program worked out by hand and of the simulated programs."""
    folder = tmp_path_factory.mktemp("serve")
    (folder / "late_once").mkdir()
    write_archive(late_once(), folder / "late_once" / "traces.otf2")
    for program in SIMULATED:
        generate.write(simulated(program), folder / program)
    return folder


class Client:
    """The SDK's client of a server, for tests without asynchronous code."""

    def __init__(self, portal: Any, client: Any) -> None:
        self._portal, self._client = portal, client

    def call(self, tool: str, **arguments: Any) -> tuple[str, bool]:
        """Return the text of an answer, and whether it is an error."""
        result = self._portal.call(self._client.call_tool, tool, arguments)
        assert [part.type for part in result.content] == ["text"]
        assert result.structured_content is None
        return result.content[0].text, bool(result.is_error)

    def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return an answer after a check of its length."""
        text, is_error = self.call(tool, **arguments)
        assert not is_error, text
        assert count_tokens(text) <= MOST
        return json.loads(text)

    def refused(self, tool: str, **arguments: Any) -> str:
        """Return the text of an error after a check of its length."""
        text, is_error = self.call(tool, **arguments)
        assert is_error, text
        assert count_tokens(text) <= MOST
        assert "Traceback" not in text
        return text

    def tools(self) -> list[Any]:
        """Return the tools that are offered."""
        return self._portal.call(self._client.list_tools).tools


@pytest.fixture(scope="module")
def sdk():
    pytest.importorskip("mcp.server.mcpserver", reason="the SDK of the Model Context Protocol is too old (extra mcp)")


@pytest.fixture(scope="module")
def client(folder, sdk):
    from anyio.from_thread import start_blocking_portal
    from mcp import Client as SDKClient
    from mcp.client.stdio import StdioServerParameters, stdio_client

    allowed = [str(path) for path in (folder, *(DATA / p for p in KEPT), INJECTED) if path.exists()]
    arguments = ["-m", "tracecols", "serve", "--mcp", "--jobs", "1", *allowed]
    started = StdioServerParameters(command=sys.executable, args=arguments, cwd=str(Path(__file__).parents[2]))
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(SDKClient(stdio_client(started))) as connected,
    ):
        yield Client(portal, connected)


def test_questions__are_sixty():
    assert len(QUESTIONS) >= (60 if INJECTED.is_dir() else 50)
    assert len({q.words for q in QUESTIONS}) == len(QUESTIONS)
    assert {q.tool for q in QUESTIONS} == {"open", "diagnose", "show", "waits", "sql", "compare", "what_if"}


OFTEN = len(of_late_once())


@pytest.mark.parametrize(
    "question", [pytest.param(q, id=q.words, marks=[pytest.mark.slow] * (i >= OFTEN)) for i, q in enumerate(QUESTIONS)]
)
def test_question__is_answered(client, question):
    answer = client.ask(question.tool, **question.arguments)
    assert question.found(answer) == question.expected()
    assert answer["shown"].startswith(("rows 1 to ", "no rows"))


# -- the protocol ------------------------------------------------------------------------------------------------------


def test_tools__are_described_and_read_only(client):
    tools = {tool.name: tool for tool in client.tools()}
    assert set(tools) == {"open", "diagnose", "show", "waits", "sql", "compare", "what_if"}
    for tool in tools.values():
        assert tool.annotations.read_only_hint
        described = tool.description
        assert all(f"{name}:" in described or f"{name}, " in described for name in tool.input_schema["properties"] if name not in ("path", "paths", "query"))  # fmt: skip
    assert sum(count_tokens(tool.model_dump_json(exclude_none=True)) for tool in tools.values()) <= 3 * MOST


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("open", {"path": "/etc/passwd"}, ("may not be opened", "ask for a path in there")),
        ("show", {"path": "late_once", "property": "late sendr"}, ("no property 'late sendr'", "did you mean")),
        ("sql", {"path": "late_once", "query": "drop table events"}, ("DROP", "give one select")),
        ("show", {"path": "late_once", "first": "many"}, ("first", "integer")),
        ("diagnose", {}, ("path", "required")),
    ],
)
def test_error__is_an_answer(client, tool, arguments, words):
    text = client.refused(tool, **arguments)
    assert all(word in text for word in words)


@pytest.mark.slow
def test_server__ends_with_its_input(folder, sdk):
    command = [sys.executable, "-m", "tracecols", "serve", "--mcp", str(folder)]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONG, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
