"""Texts of notes, which count things: the plural form, and the singular.

Cubes and stores keep the plural form, whatever the number. Notes of other versions have no singular form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

COUNTED = (
    # of one location, and of definitions
    "{exit that does|exits that do} not match {its|their} enter",
    "{region instance that never ends|region instances that never end}",
    "{event earlier than the one before it|events earlier than the one before them}",
    "{position that does|positions that do} not fit {its|their} topology",
    "{record|records} of ..., which {is|are} not analysed",
    "{device stream, which is no CPU: its|device streams, which are no CPUs: their} times and visits are left out",
    # threads
    "{team|teams} without a recorded FORK",
    "{thread that begins|threads that begin} in undefined teams",
    "{end of a team that does|ends of teams that do} not match {its|their} begin",
    "{task that is|tasks that are} completed again",
    "{construct that lacks|constructs that lack} threads",
    "{construct|constructs} in different order",
    "{thread that does|threads that do} not wait for others",
    "{lock event that does|lock events that do} not alternate",
    "{lock that was|locks that were} never released",
    "{created thread that never begins|created threads that never begin}",
    "{thread|threads} whose creation is not recorded",
    "{thread that runs while its process runs serially: its|threads that run while their process runs serially: their}"
    " idle time counts in addition",
    "{call path counted outside its|call paths counted outside their} parallel region, as the reference does",
    # processes
    "{send|sends} without receive ({it and its|they and their} bytes count as sent; what {it|they} waited for",
    "{receive|receives} without send ({it and its|they and their} bytes, as far as recorded, count as received; what"
    " {it|they} waited for",
    "{send|sends} without receive",
    "{receive|receives} without send",
    "{cancelled request|cancelled requests}",
    "{message received before it was|messages received before they were} sent",
    "{collective operation that lacks|collective operations that lack} participants",
    "{collective operation|collective operations} whose participants disagree",
    "{participant|participants} of collective operations on undefined communicators",
    "{participant|participants} of collective operations that {is not a member|are not members} of the communicator",
    "{collective operation|collective operations} whose root is not a member of the communicator",
    "{collective operation left before others entered it|collective operations left before others entered them}",
    "{process that leaves|processes that leave} MPI_Init or MPI_Finalize before others entered it",
    "{non-blocking collective operation that is|non-blocking collective operations that are} never completed",
    "{non-blocking collective operation that lacks|non-blocking collective operations that lack} participants",
    "{operation on windows that lacks|operations on windows that lack} participants",
    "{operation|operations} on undefined windows",
    "{exposure epoch that lacks|exposure epochs that lack} access epochs",
    "{collective operation on files that lacks|collective operations on files that lack} participants",
    "{collective call|collective calls} for files whose handle is not recorded: waiting in {it|them} is not known",
    "{call|calls} of neighbourhood collectives: no recording says on which communicator, so who waits for whom is not"
    " known",
    # devices
    "{reference|references} of calls to streams that do not exist in their process",
    "{kernel|kernels} launched before the piece",
    "{kernel|kernels} without a launch",
    "{kernel whose launch is|kernels whose launches are} not recorded: late hosts and launch latency are not known",
    "{launch|launches} without a kernel",
    "{kernel that begins before its|kernels that begin before their} launch",
    "{copy that never ends|copies that never end}",
    "{copy|copies} requested before the piece",
    "{copy|copies} whose call is not known",
    "{copy|copies} without bytes",
    "{call that launches kernels or copies|calls that launch kernels or copy}, and no streams of devices: what the"
    " devices do is not recorded",
    # cells
    "{cell that is not zero|cells that are not zero}",
    "{cell of a program's root that is|cells of a program's root that are} negative because the reference takes "
    "explicit tasks off it",
    "{cell that is|cells that are} negative because",
    "{cell|cells} with more waiting than time, because clocks disagree or waits of one call overlap",
    "{difference|differences} from conventions",
    # what is left out
    "{event|events} of kind",
    "{call of MPI, OpenMP or for devices that begins|calls of MPI, OpenMP or for devices that begin} before the piece "
    "or {ends|end} after it: only a part of {its|their} waiting is in it",
    "{event|events} of messages and collective operations left out of the piece, which {holds|hold} only one side of"
    " them",
    "{call instance|call instances}: root causes take about 120 bytes for each in memory and temporary files, more than"
    " there is room for",
    "{call instance|call instances}: causes of lost time are found in pieces",
    "{cell|cells} of call paths and CPUs: computational imbalance",
    "{tick|ticks} of all locations: root causes",
    "{call instance|call instances}, too many for the critical path",
    "{value of counters that is no number|values of counters that are no numbers}",
    "{topology|topologies} without a communicator",
    "{coordinate|coordinates} of locations without a rank",
    # periods
    "{process that has fewer phases than others, and lacks|processes that have fewer phases than others, and lack} the"
    " last ones",
    "{process without any phase: all of its|processes without any phase: all of their} time is outside",
    "{instance of a phase within a phase, which belongs|instances of a phase within a phase, which belong} to the"
    " outer one",
    "{property whose matches do not say when they begin (...): it counts|properties whose matches do not say when they"
    " begin (...): they count} for the bin in which their call begins",
    # archives that are written
    "{region or communicator|regions and communicators} of NCCL, RCCL or oneCCL, whose waits are not found there",
    "{call|calls} with a call site",
    "{event|events} whose order among those of the same time at other locations is recorded",
    # the replay
    "{call|calls} whose communication partners are not recorded",
    "{call of one-sided communication and I/O that is kept as it was|calls of one-sided communication and I/O that are"
    " kept as they were} recorded",
    "{thread or stream|threads and streams} whose creation is not recorded: {it begins|they begin} as long after the"
    " preceding event of {its|their} process",
    "{join of a thread|joins of threads} whose end is not recorded: {it takes as long as it|they take as long as they}"
    " did",
    "{wait for a condition variable|waits for condition variables} during which no other thread signals or holds the"
    " mutex: {it takes as long as it|they take as long as they} did",
    "{call for devices: it counts|calls for devices: they count} as computation unless {it waits|they wait} for"
    " streams",
    "{kernel or copy whose launching call is|kernels and copies whose launching calls are} not recorded: {it"
    " begins|they begin} as long after the preceding operation on {its|their} stream",
    "{call of SHMEM: it counts|calls of SHMEM: they count} as computation",
    "explicit {task of a team|tasks of teams} in which tasks wait for tasks: {it stays at the thread|they stay at the "
    "threads} that executed {it|them}, so that less is gained than if idle threads took {it|them}",
    "{inferred wait of a sender for a receiver, or for a lock, that contradicts|inferred waits of senders for "
    "receivers, or for locks, that contradict} the order of other events, left out",
    "{message or participant|messages and participants} outside of MPI calls, left out",
)
"""Beginnings of the texts of notes: in braces the singular and the plural; `...` is any text."""


CONVENTIONS = "differences from conventions scalasca in root causes"
"""Beginning of the notes about conventions, which hold for every trace; `tracecols info` of a cube lists them."""


def worth_telling(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the notes of a cube that are always shown: all but those about conventions."""
    return {what: n for what, n in counts.items() if not what.startswith(CONVENTIONS)}


@cache
def _templates() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return, for each declared text, the pattern of its plural form and the template of its singular."""

    def form(text: str, which: int) -> str:
        return re.sub(r"\{([^|}]*)\|([^}]*)\}", lambda found: found[which], text)

    return tuple(
        (re.compile(re.escape(form(text, 2)).replace(r"\.\.\.", "(.*?)")), form(text, 1).replace("...", r"\1"))
        for text in COUNTED
    )


def is_declared(words: str) -> bool:
    """Return whether the text of a note has a declared beginning."""
    return any(many.match(words) for many, _ in _templates())


def singular(words: str) -> str:
    """Return the singular form of the text of a note; the same text if this version does not declare it."""
    for many, one in _templates():
        if found := many.match(words):
            return found.expand(one) + words[found.end() :]
    return words


def note(n: int, what: str) -> str:
    """Return a note as text: the number and what it counts."""
    return f"{n:,} {singular(what) if n == 1 else what}"


def fate(what: str) -> str:
    """Return what became of records that were not understood: OTF2 events are kept, since their location and time are
    known."""
    return "kept as events of kind UNKNOWN" if what.startswith("event") else "left out"
