"""Declarations of properties: all facts about a property are declared with it, and every user of properties follows
them."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
from support.command_line import run

import tracecols
from tracecols.docs.site.declared import property_lists, property_pages
from tracecols.errors import AnalysisError
from tracecols.export.tables import export
from tracecols.patterns.base import Family
from tracecols.patterns.found_by import Pattern, SumOf
from tracecols.patterns.plugins import load
from tracecols.patterns.registry import CONVENTIONS, properties, waits_by_delay
from tracecols.report.viewer.profile import WAITS, time_profile
from tracecols.schema import properties as ids
from tracecols.schema.causes import CHARGED, DELAY_IDS
from tracecols.severity import SeverityCube
from tracecols.severity.axes import PropertyAxis
from tracecols.severity.efficiencies import times_of
from tracecols.testing import Program

PACKAGE = Path(tracecols.__file__).parent

DECLARED = {p.id for conventions in CONVENTIONS for p in properties(conventions)}

ROOMS = {
    "patterns/": "properties are declared here",
    "rules/": "rules are declared here, each as a calculation with certain properties",
    "schema/properties.py": "properties that code calculates with have a name here; what is known of them is declared",
    "schema/causes.py": "the numbers that properties have in the tables of root causes",
    "drawings/examples.py": "pictures: each is of certain properties, and a test demands one for every wait",
}
"""Modules that may contain ids of properties, and why."""

WORDS = {"time", "mpi", "shmem", "visits", "bytes", "delay", "imbalance", "bytes_sent"}
"""Ids that are also names of columns, paradigms or parameters."""


def ids_in(path: Path) -> list[str]:
    """Return the literals of a module that are ids of properties."""
    text = path.read_text(encoding="utf-8")
    if not any(f'"{name}"' in text for name in DECLARED - WORDS):
        return []
    literals = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
    return [value for value in literals if isinstance(value, str) and value in DECLARED - WORDS]


def test_ids__of_properties_are_written_in_declarations_only():
    lists = {
        f"{path.relative_to(PACKAGE)}": found
        for path in sorted(PACKAGE.rglob("*.py"))
        if not f"{path.relative_to(PACKAGE)}".startswith(tuple(ROOMS)) and (found := ids_in(path))
    }
    # root causes are computed for the properties that their tables number
    outside = {
        where: [i for i in found if not (where.startswith("causes/") and i in CHARGED)]
        for where, found in lists.items()
    }
    assert {where: found for where, found in outside.items() if found} == {}
    assert ids_in(PACKAGE / "patterns" / "collective.py") and ids_in(PACKAGE / "causes" / "charges.py")


def test_ids__that_code_calculates_with_are_declared():
    named = {v for k, v in vars(ids).items() if k.isupper() and isinstance(v, str)} - {ids.ROOT_CAUSES, ids.IMBALANCE}
    assert len(named) >= 8 and named <= DECLARED


@pytest.mark.parametrize("conventions", CONVENTIONS)
def test_declarations__refer_to_what_is_declared(conventions):
    declared = {p.id: p for p in properties(conventions)}
    for p in declared.values():
        assert not p.delay or (p.delay in DECLARED and (p.is_wait or p.part == "idle")), p.id
        assert not p.part or p.part in ids.PARTS, p.id
        assert not p.is_heading or any(q.parent == p.id for q in declared.values()), p.id


def test_delays__are_those_of_some_wait():
    """A kind of delay that is declared for no wait would never be the cause of a finding."""
    named = {p.delay for conventions in CONVENTIONS for p in properties(conventions)}
    assert {kind for kind in DELAY_IDS.values() if not any(delay.startswith(kind) for delay in named)} == set()


WITHOUT_CAUSE = {"omp_ordered", "omp_taskwait"}
"""Waits that are the time of whole regions: no event records who is waited for."""


def test_waits__are_charged_to_who_causes_them():
    """Waits of devices have separate kinds of causes."""
    nobody = waits_by_delay(properties("exact"))[""]
    assert {id for id in nobody if not id.startswith(("device_", "nccl_"))} == WITHOUT_CAUSE


def test_axis__that_says_nothing_is_what_is_declared():
    for conventions in CONVENTIONS:
        stated = PropertyAxis.of(properties(conventions))
        columns = ("id", "parent", "title", "unit", "summary", "advice", "confidence", "overlaps")
        unstated = PropertyAxis(*(getattr(stated, column) for column in columns))
        for column in ("is_wait", "delay", "part", "is_heading", "is_estimate"):
            assert getattr(unstated, column) == getattr(stated, column), (conventions, column)
        unstated.advice = [""] * len(unstated.id)
        again = replace(unstated, is_heading=[])
        assert again.advice == stated.advice and set(unstated.advice) == {""}


def test_declare__without_a_function_is_refused():
    family = Family("forgotten")
    family.declare("forgotten", "mpi_point2point", "Forgotten", "A pattern without its function.", Pattern("messages"))
    with pytest.raises(AnalysisError, match="declared without the function that finds it"):
        properties("exact", family.properties)


def test_declare__has_variants_of_the_property_of_what_finds_it_and_of_arguments():
    family = Family("varied")

    @family.declare(
        "varied", "mpi", "Varied", "Found elsewhere.", Pattern("messages", since="send_time"), exact={"title": "Exact", "least": 3},
        expert={"since": "recv_time", "is_wait": False},
    )  # fmt: skip
    def varied(model, m, parent, *, least=0):
        return parent.where(m.length[parent.row] >= least)

    family.declare("other", "mpi", "Other", "A sum.", SumOf(), scalasca=None, exact={"found": Pattern("sends", varied)})
    scalasca, expert, exact, other = family.properties
    assert (scalasca.title, scalasca.pattern.since, scalasca.given, scalasca.is_wait) == (
        "Varied",
        "send_time",
        {},
        True,
    )
    assert (exact.title, exact.pattern.since, exact.given) == ("Exact", "send_time", {"least": 3})
    assert (expert.title, expert.pattern.since, expert.is_wait) == ("Varied", "recv_time", False)
    assert {p.pattern.function for p in family.properties} == {varied}
    assert (other.conventions, other.table) == ("exact", "sends")


LATE_COPY = """
import tracecols

family = tracecols.Family("copies of messages")

@family.pattern(
    "copy_wait", "mpi_point2point", "Wait for Copies", table="messages", since="recv_enter_time",
    summary="Time a receive waits for a copy.", advice="Copy early. Or not at all.", delay="delay_latesender_aggregate",
    is_heading=True,
)
def copy_wait(model, m, parent):
    return parent.where(m.send_enter_time > m.recv_enter_time, severity=m.send_enter_time - m.recv_enter_time)

@family.pattern(
    "copy_wait_long", "copy_wait", "Long Copies", table="messages", summary="Waits for long copies."
)
def copy_wait_long(model, m, parent):
    return parent.where(m.length[parent.row] > 1000)
"""


def program() -> Program:
    """Return a program with two receives that wait for 15 and 20 ticks; the sender computes before it sends."""
    program = Program(processes=2)
    sender, receiver = program.masters
    sender.enter(0, "main").enter(1, "MPI_Comm_rank").leave(16).enter(20, "MPI_Send").send(21, to=1, length=8).leave(25)
    sender.enter(50, "MPI_Send").send(51, to=1, length=5000).leave(55).leave(60)
    receiver.enter(0, "main").enter(5, "MPI_Recv").receive(24, source=0).leave(26)
    receiver.enter(30, "MPI_Recv").receive(54, source=0).leave(56).leave(60)
    return program


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """Return the file of the plug-in, and the cube of an analysis with it, without MPI's own wait state."""
    file = tmp_path_factory.mktemp("copies") / "copies.py"
    file.write_text(LATE_COPY)
    with program().trace() as trace:
        chosen = ["execution", "omp_idle_threads", "mpi_point2point", "copy_wait_long", "delay_latesender_aggregate"]
        return file, trace.analyze(patterns=[file], properties=chosen, bins=2)


def saved(cube, folder):
    """Return a cube, a copy read from the tracecols format, and one read from the Cube format."""
    path = cube.save(folder / "x.severity")
    export(path, folder / "x.cubex")
    return cube, SeverityCube.load(path), tracecols.read_cube(folder / "x.cubex")


def test_wait_of_a_plugin__is_no_transfer(copies, tmp_path):
    _, cube = copies
    for found in saved(cube, tmp_path):
        assert found.properties.waits("mpi") == ["copy_wait"]
        # the receiver is in MPI for 47 ticks, of which it waits 35; the sender for 25
        assert times_of(found, ideal="approximation").ideal == pytest.approx((60 - 47 + 35) / cube.resolution)


def test_wait_of_a_plugin__is_a_finding_with_its_heading_advice_and_cause(copies, tmp_path):
    _, cube = copies
    for found in saved(cube, tmp_path):
        by_property = {f.property: f for f in found.diagnosis(20, with_startup=True).findings}
        # the child property declares neither advice nor delays
        for name, title in (
            ("copy_wait", "MPI, Wait for Copies without Long Copies"),
            ("copy_wait_long", "MPI, Long Copies"),
        ):
            assert by_property[name].title == title
            assert by_property[name].advice == "Copy early."
            assert by_property[name].cause.location == "rank 0"
        assert by_property["copy_wait"].seconds == pytest.approx(15 / cube.resolution)


def test_wait_of_a_plugin__is_waiting_in_the_viewer(copies):
    _, cube = copies
    (waiting,) = (part for part in time_profile(cube)["parts"] if part["id"] == WAITS)
    numbers = cube.properties.number
    assert waiting["of"] == [numbers["copy_wait"], numbers["copy_wait_long"]]
    assert sum(waiting["values"]) == 35


def test_wait_of_a_plugin__is_described_wherever_properties_are(copies):
    file, _ = copies
    result = run("patterns", "copy_wait", "--conventions", "exact", "--patterns", file)
    text = " ".join(result.output.split())
    assert "Counts as: waiting" in text and "delay_latesender_aggregate" in text
    families = load(file)
    assert "[Wait for Copies](properties/copy_wait.md)" in property_lists(families)
    page = property_pages(families)["copy_wait"]
    assert "Copy early" in page and "| Counts as | waiting |" in page and "copy_wait_long" in page
