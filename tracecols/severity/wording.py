"""Descriptions of causes as an engineer would write them: one line, the evidence, and advice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.scan.paths import function_name
from tracecols.given.quantities import counted, in_words
from tracecols.schema.properties import DEVICE_COPIES, DEVICE_KERNELS
from tracecols.severity.narrowed import ranges

Facts = Mapping[str, Any]

TINY = 4096
"""Bytes up to which a message is small."""

TOKEN = 16
"""Bytes up to which a message may be a mere token that passes on the turn."""

MANY = 20
"""Messages per execution of a region, or gaps of a device, from which on they are many."""

SMALL = 1e-3
"""Seconds of work up to which a parallel region may be too small."""

HUNDRED = 100.0
"""Latencies that a message may take beyond waiting if fewer messages are to help; longer ones are stalled. Also the
ratio of computation to that of others above which a location does nearly all of it."""

LATENCY, BANDWIDTH = 1e-5, 1e9
"""`LATENCY` and `BANDWIDTH`: of a network at worst, in seconds and bytes per second."""

SLOWER = 10.0
"""Ratio to the time of such a network above which a transfer is stalled."""

STALLED = 2e-3
"""Seconds lost per thread in a small parallel region above which the region itself cannot be the reason."""

LONG = 0.5
"""Share of the time of calls in few long ones above which it is reported."""


class Subject(NamedTuple):
    """Parts of the sentences about a cause, besides its evidence."""

    region: str
    """The region it is in."""
    who: str
    """The location or the process that causes it, in words; empty if all do."""
    unit: str = "thread"
    """Name of locations in the singular: `rank` if each process has one thread, otherwise `thread`."""
    in_openmp: bool = False
    """Whether the region is executed in constructs of OpenMP."""


LONGEST = 40
"""Characters of the name of a region in a sentence."""

PART_OF_RUN = ("since", "until", "while")
"""Trends of computation that takes longer in some consecutive times."""


def short(region: str) -> str:
    """Return the name of a region without types and arguments of functions, and without the middle of a long one."""
    name = function_name(region)
    return name if len(name) <= LONGEST else f"{name[:20]}...{name[-17:]}"


def seconds(value: float) -> str:
    """Write a duration with three digits."""
    return in_words(value, "seconds")


def size(n_bytes: float) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= factor:
            return f"{n_bytes / factor:.3g} {unit}"
    return f"{n_bytes:.0f} bytes" if n_bytes != 1 else "1 byte"


def has_large_share(f: Facts) -> bool:
    """Return whether few long calls have most of the time of all. Few are less than a quarter, of collective calls less
    than half, as a function is more likely to send messages of different sizes than to call different operations."""
    e, few = f["evidence"], 0.5 if f.get("kind") == "collectives" else 0.25
    return e.get("in_long", 0) > LONG and 0 < e.get("n_long", 0) < few * e.get("n_calls", 0)


def has_tiny_messages(f: Facts) -> bool:
    """Return whether a region sends many small messages each time."""
    e = f["evidence"]
    return (
        "n_messages" in e
        and e["mean_bytes"] <= TINY
        and e.get("transfer", 0.0) <= HUNDRED * LATENCY
        and e["n_messages"] * 2 >= MANY * max(e.get("visits", 1), 1)
        and e["n_messages"] >= 100
    )


def has_slow_transfers(f: Facts) -> bool:
    """Return whether messages take much longer beyond waiting than any network needs for their sizes."""
    e = f["evidence"]
    return "transfer" in e and e["transfer"] > SLOWER * (LATENCY + e["mean_bytes"] / BANDWIDTH)


def are_too_small(f: Facts) -> bool:
    """Return whether parallel regions have little work and take more than half of its time besides."""
    e = f["evidence"]
    return 0 < e.get("work_each", 0) < SMALL and e["lost_each"] > 0.5 * e["work_each"]


def are_stalled(f: Facts) -> bool:
    """Return whether small parallel regions take so long that threads must have been kept from running."""
    return are_too_small(f) and f["evidence"]["lost_each"] > STALLED


def culprits(
    locations: Sequence[int],
    is_process: bool,
    rank: NDArray[np.integer[Any]],
    thread: NDArray[np.integer[Any]],
    name: Callable[[int], str],
) -> str:
    """Name the locations that cause something, or their process.

    `locations` is empty if no location in particular causes it; `is_process` is whether all threads of a process do.
    """
    if not len(locations):
        return ""
    if is_process:
        return f"rank {rank[locations[0]]}"
    threads, n_ranks = distinct(thread[locations]), distinct(rank).size
    if n_ranks > 1 and len(locations) == n_ranks * threads.size:
        among = f"{threads[0]}" if threads.size == 1 else ranges(threads.tolist())
        return f"thread{'s' * (threads.size > 1)} {among} of every rank"
    named = list(map(name, locations[:3]))
    more = len(locations) - len(named)
    return f"{', '.join(named)} and {more:,} more" if more else listed(named)


# -- what ----------------------------------------------------------------------------------------------------------


def _takes(n: int) -> str:
    return "takes" if n == 1 else "take"


def _computation(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    others = e.get("others")
    if others is None:
        executes, it = ("execute", "them") if _are_several(f, s) else ("executes", "it")
        return f"only {s.who} {executes} {s.region}, and others wait for {it}"
    ratio = e["mine"] / others if others else 0
    trend = e.get("trend", "steady")
    more = seconds(e["mine"] - others)
    who = _who_computes(f, s)
    longer = f"{who} {more} longer than the others in {s.region}"
    if trend == "once":
        return f"{longer}, once in {e['n_pieces']:,} times"
    if trend == "every":
        return f"{longer}, every {_ordinal(e['step'])} time"
    if trend in PART_OF_RUN:
        times = f"of {e['n_pieces']:,} times"
        return f"{longer}, {_times(e, times)}"
    if trend in ("growing", "shrinking"):
        ever = "longer" if trend == "growing" else "shorter"
        return f"{who} ever {ever} in {s.region}: {more} more than the others"
    if ratio > HUNDRED:
        return f"{who} {s.region} nearly alone: {seconds(e['mine'])}, the others {seconds(others)}"
    return f"{who} {ratio:.1f} times as long as the others in {s.region}" if ratio >= 1.2 else longer


def _times(e: Mapping[str, Any], times: str) -> str:
    """Describe in which of some consecutive `times` something takes longer."""
    number = f"the {_ordinal(e['number'])}"
    if e["trend"] == "while":
        return f"from {number} to the {_ordinal(e['last'])} {times}"
    return f"from {number} {times} on" if e["trend"] == "since" else f"up to {number} {times}"


def _are_several(f: Facts, s: Subject) -> bool:
    """Return whether the locations that are the cause are named in the plural."""
    return bool(f.get("is_process")) or (len(f.get("locations", ())) > 1 and not s.who.startswith("thread "))


def _who_computes(f: Facts, s: Subject) -> str:
    """Begin a sentence about the computation of the locations that are the cause."""
    who = f"the {_parts(f)} of {s.who}" if f.get("is_process") else s.who
    return f"{who} {'compute' if _are_several(f, s) else 'computes'}"


def _parts(f: Facts) -> str:
    """Return the name of the locations of a process that compute, in the plural."""
    return "streams" if f["evidence"].get("on_streams") else "threads"


def _who_alone(f: Facts, s: Subject) -> str:
    masters = "the master computes" if f["evidence"].get("n_locations") == 1 else "the masters compute"
    return f"{s.who} computes" if s.who else masters


def listed(names: Sequence[str]) -> str:
    """Join names with commas and `and`."""
    *some, last = names
    return f"{', '.join(some)} and {last}" if some else last


def _copies(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    of = f" of {size(e['bytes'] / e['n_copies'])}" if e["bytes"] else ""
    n, together = e["n_copies"], "" if e["n_copies"] == 1 else " together"
    copies = counted(n, "copy", "copies")
    return f"{copies}{of} between hosts and devices in {s.region} {_takes(n)} {seconds(e['copying'])}{together}"


def _transfers(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    n = e["n_kernels"]
    return (
        f"{counted(n, 'kernel')} launched in {s.region} {'communicates' if n == 1 else 'communicate'} for "
        f"{seconds(e['transfer'])}{_each(n)} beyond waiting, while others wait for {'it' if n == 1 else 'them'}"
    )


def _each(n: int) -> str:
    return "" if n == 1 else " each"


def _threads(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    n = e["n_created"]
    until = "it begins" if n == 1 else "they begin"
    return (
        f"creating and joining {counted(n, 'thread')} in {s.region} takes {seconds(e['lost_each'])}{_each(n)}, "
        f"with the time until {until}"
    )


def _turns(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    if "in_line" in e:
        calls, each = counted(e["n_calls"], "call"), seconds(e["in_line"])
        line = f"{calls} of {e['call']} in {_functions(f, s)} wait for each other"
        return f"{line}: one process after the other, {each} each"
    return f"processes execute {s.region} one after the other while the others wait"


def _grain(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    n = e["n_long"]
    return (
        f"{n:,} of {counted(e['n_pieces'], 'task')} {_takes(n)} {seconds(e['long_each'])}{_each(n)} in {s.region}, "
        f"the others {seconds(e['others_each'])}"
    )


def _tasks(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    work = f", and a task computes {seconds(e['work_each'])}" if e["work_each"] else ""
    n = e["n_tasks"]
    return f"creating {counted(n, 'task')} in {s.region} takes {seconds(e['lost_each'])}{_each(n)}{work}"


def _ordinal(n: int) -> str:
    ending = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def _unit(f: Facts, s: Subject) -> str:
    """Return the name of the locations that compute, in the singular."""
    return "stream" if f["evidence"].get("on_streams") else s.unit


def _imbalance(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    are = "are" if len(e.get("functions", ())) > 1 else "is"
    ratio = e["largest"] / e["mean"] if e.get("mean") else 1
    over = counted(e["n_locations"], _unit(f, s))
    return f"{s.region} {are} distributed unevenly over {over}: the longest takes {ratio:.2f} times the mean"


def _changing(f: Facts, s: Subject) -> str:
    takes = _takes(len(f["evidence"].get("functions", (s.region,))))
    return f"{s.region} {takes} longest on another {_unit(f, s)} each time; over the run all take about the same"


def _regions(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    n = e.get("n_regions", 0)
    if n and are_stalled(f):
        return (
            f"threads are stalled in {counted(n, 'parallel region')} in {s.region}: each loses "
            f"{seconds(e['lost_each'])}"
        )
    if n and are_too_small(f):
        more = f", and small ones in {counted(e['n_more'], 'other function')}" if e.get("n_more") else ""
        return (
            f"{counted(n, 'parallel region')} in {s.region} with {seconds(e['work_each'])} of work per thread "
            f"each{more}"
        )
    return f"parallel regions and barriers in {s.region} take long beyond their work"


def _functions(f: Facts, s: Subject) -> str:
    """Name the function of a cause, and those that take part."""
    names = (s.region, *map(short, f["evidence"].get("partners", ())))
    return listed(names) if len(names) <= 3 else f"{s.region} and {counted(len(names) - 1, 'other function')}"


def _counted(e: Facts, where: str, what: str) -> str:
    """Count calls, and name the MPI call with most of their time, which may be one of several."""
    n = e.get("n_calls", 0)
    if "call" in e and e.get("n_called", n) == n:
        return f"{counted(n, 'call')} of {e['call']} in {where}"
    return f"{counted(n, what)} in {where}" + (f", most of all {e['call']}," if "call" in e else "")


def _messages(f: Facts, s: Subject) -> str:
    e, where = f["evidence"], _functions(f, s)
    if has_tiny_messages(f):
        return f"{e['n_messages']:,} messages of {size(e['mean_bytes'])} in {where}"
    if has_large_share(f):
        return (
            f"{counted(e['n_long'], 'call')} of {e['n_calls']:,} in {where} {_takes(e['n_long'])} "
            f"{e['in_long']:.0%} of their time: messages are stalled"
        )
    if has_slow_transfers(f):
        n = e["n_messages"]
        return (
            f"{counted(n, 'message')} of {size(e['mean_bytes'])} in {where} {_takes(n)} "
            f"{seconds(e['transfer'])}{_each(n)} beyond waiting: {'it is' if n == 1 else 'messages are'} stalled"
        )
    if "n_messages" in e:
        return f"the transfer of {counted(e['n_messages'], 'message')} of {size(e['mean_bytes'])} in {where}"
    if "call" in e:
        return f"{_counted(e, where, 'call')} {_takes(e['n_calls'])} long beyond waiting"
    return f"point-to-point communication in {where} takes long beyond waiting"


def _collectives(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    named = f", most of all {e['call']}," if "call" in e else ""
    if has_large_share(f):
        return (
            f"{counted(e['n_long'], 'collective call')} of {e['n_calls']:,} in {s.region}{named} {_takes(e['n_long'])} "
            f"{e['in_long']:.0%} of their time"
        )
    return f"{_counted(e, s.region, 'collective call')} {_takes(e.get('n_calls', 0))} long beyond waiting"


def _calls(f: Facts, s: Subject) -> str:
    e, most = f["evidence"], f", most of all on {s.who}" if s.who else ""
    return f"{_counted(e, _functions(f, s), 'call')} {_takes(e.get('n_calls', 0))} long{most}"


def _lock(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    held = f", {seconds(e['held_each'])} each time" if e.get("held_each") else ""
    construct = e.get("construct", "")
    if _is_ordered(f):
        return f"threads wait for their turn at the ordered section in {s.region}{held}"
    if s.who:
        return f"{s.who} holds the lock of {s.region} longest{held}; others wait for it"
    who = "processes" if construct.lower().startswith(("mpi_", "shmem_")) else "threads"
    where = f" ({short(construct)})" if construct not in ("", s.region) else ""
    return f"{who} wait for each other at the lock in {s.region}{where}{held}"


def _locking(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    n = counted(e["n_taken"] + e.get("n_atomic", 0), "time")
    if _is_atomic(f):
        return f"atomic operations in {s.region} take {seconds(e['lost_each'])} each, {n}"
    return f"taking and releasing locks in {s.region} takes {seconds(e['lost_each'])} each time beyond waiting, {n}"


def _is_atomic(f: Facts) -> bool:
    """Return whether time of taking locks is that of atomic operations."""
    return f["evidence"].get("n_atomic", 0) > 0 == f["evidence"]["n_taken"]


def _is_ordered(f: Facts) -> bool:
    """Return whether threads wait for their turn in an ordered section rather than for a lock."""
    return str(f["evidence"].get("construct", "")).lower().startswith("!$omp ordered")


def is_passed_on(f: Facts) -> bool:
    """Return whether at least half of the messages are sent by locations that receive some themselves."""
    return bool(f["evidence"].get("passed_on", 1.0) >= 0.5)


def is_too_short(f: Facts) -> bool:
    """Return whether sweeps would take less time with smaller blocks."""
    return bool(f["evidence"].get("parts", 1) > 1)


def is_token(f: Facts) -> bool:
    """Return whether messages are mere tokens that pass on the turn."""
    e = f["evidence"]
    return e.get("n_blocks") == 1 and e["mean_bytes"] <= TOKEN


def _pipeline(f: Facts, s: Subject) -> str:
    if not is_passed_on(f):
        return f"ranks wait for messages in {s.region} that are sent late"
    e = f["evidence"]
    if is_token(f):
        return f"ranks execute {s.region} one after the other: each waits for a message of the one before"
    if is_too_short(f):
        blocks = counted(e["n_blocks"], "block")
        return f"a pipeline of {blocks} in {s.region} is too short for {e['n_ranks']:,} ranks in turn"
    if "n_blocks" not in e:
        return f"ranks wait for messages in {s.region} of others that wait for messages themselves"
    return f"ranks wait in turn for messages in {s.region}: a pipeline that is filled and drained"


def _straggler(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    if e["unrecorded"] > 0.5 * e["waits"]:
        return (
            f"kernels of other ranks wait for {s.who}, which is late when its recording begins, and longest in "
            f"{s.region}"
        )
    if e["is_kernel"]:
        return f"kernels of other ranks wait for {s.who}: its kernel {s.region} takes too long"
    return f"kernels of other ranks wait for {s.who}: its host takes too long in {s.region}"


def _idle(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    one = e["n_processes"] == 1
    of = f" of {s.who}" if s.who else ""
    devices = f"the device{of} has" if one else f"devices{of} have"
    if is_offloading(s):
        meanwhile = f"while {'its host prepares' if one else 'hosts prepare'} what is offloaded ({s.region})"
    else:
        meanwhile = f"while {'its host is' if one else 'hosts are'} in {s.region}"
    return f"{devices} nothing to do {e['idle_share']:.0%} of the time, {meanwhile}"


def is_offloading(s: Subject) -> bool:
    """Return whether hosts are in the run-time system of a target construct, outside the kernel."""
    return s.region.lower().startswith(("!$omp offload", "!$omp target", "!$acc"))


def launches_seldom(f: Facts) -> bool:
    """Return whether devices have nothing to do many times for a short time, and no single function of the program has
    most of it: launches take longer than the operations they launch."""
    e = f["evidence"]
    # cubes of earlier versions lack it
    spread = e.get("in_calls", 1.0) > 0.5 or max(e["region_shares"], default=0.0) < 0.5
    return e["n_gaps"] >= MANY and e["idle"] < SMALL * e["n_gaps"] and spread


Say = Callable[[Facts, Subject], str]

WHAT: dict[str, Say] = {
    "computation": _computation,
    "imbalance": _imbalance,
    "changing": _changing,
    "serial": lambda f, s: f"{_who_alone(f, s)} {s.region} alone while other threads idle",
    "slow": lambda f, s: (
        f"{_who_computes(f, s)} {f['evidence']['mine'] / max(f['evidence']['others'], 1e-30):.1f} times as long as the "
        "others in nearly all functions"
    ),
    "single": lambda f, s: f"{s.who or 'one thread'} executes {s.region} in a single construct while the others wait",
    "turns": _turns,
    "copies": _copies,
    "transfers": _transfers,
    "threads": _threads,
    "tasks": _tasks,
    "grain": _grain,
    "regions": _regions,
    "messages": _messages,
    "collectives": _collectives,
    "calls": _calls,
    "lock": _lock,
    "locking": _locking,
    "barrier": lambda f, s: (
        f"processes wait at barriers in {s.region} ({counted(f['evidence'].get('n_calls', 0), 'call')}), now for one "
        "rank, now for another"
    ),
    "overlap": lambda f, s: (
        f"{s.region} waits for its messages right after posting them; computation follows only then"
    ),
    "pipeline": _pipeline,
    "producer": lambda f, s: (
        f"threads wait at a condition variable for {s.who}, which {'take' if _are_several(f, s) else 'takes'} too long "
        f"in {s.region}"
    ),
    "order": lambda f, s: (
        f"{f'{s.who} receives' if s.who else 'processes receive'} messages in {s.region} in another order than they "
        "are sent, while others are there already"
    ),
    "measurement": lambda f, s: (
        f"{counted(f['evidence']['n_visits'], 'call')} of {s.region} of {seconds(f['evidence']['visit'])} each: "
        "recording them takes a part of the time"
    ),
    "straggler": _straggler,
    "idle": _idle,
}
"""What to say of a cause in one line, by its kind."""


def what(f: Facts, s: Subject) -> str:
    """Describe a cause in one line."""
    n, caller, s = f["evidence"].get("n_call_paths", 1), f["evidence"].get("caller"), _of_all(f, s)
    if caller:
        s = s._replace(region=f"{s.region} (called in {short(caller)})")
    n_functions = len(f["evidence"].get("functions", ()))
    return WHAT[f["kind"]](f, s) + (f" (on {n:,} call paths)" if n > max(n_functions, 1) else "")


def _of_all(f: Facts, s: Subject) -> Subject:
    """Return a subject with all functions that a cause is in."""
    functions = f["evidence"].get("functions")
    return s._replace(region=listed(list(map(short, functions)))) if functions else s


# -- what to do ----------------------------------------------------------------------------------------------------


def advice(f: Facts, s: Subject) -> str:
    """Return the advice for a cause."""
    found = ADVICE[f["kind"]]
    return found if isinstance(found, str) else found(f, _of_all(f, s))


def _advice_for_computation(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    if e.get("trend") == "once":
        return (
            "Find out what happened then: input, output, another program on the node, or special work of this one time."
        )
    if e.get("trend") in PART_OF_RUN:
        return (
            f"Find out what changes then: the distribution of the work of {s.region}, another program on the node, or "
            "a slower clock."
        )
    if e.get("trend") == "every":
        over = "ranks" if s.unit == "rank" else "ranks and threads"
        return f"Spread what happens every {_ordinal(e['step'])} time over all times, or over all {over}."
    if e.get("others") is None:
        return f"Let others take part in {s.region}, make it shorter, or let them do something else meanwhile."
    return f"Distribute the work of {s.region} evenly, or find out why it takes longer there."


def _advice_for_regions(f: Facts, s: Subject) -> str:
    if are_stalled(f):
        return (
            "Check whether more threads run than there are cores, and where they are bound; then join small parallel "
            "regions."
        )
    if are_too_small(f):
        return f"Open one parallel region around all of {s.region}, or give small ones fewer threads (if clause)."
    return "Remove barriers that are not needed (nowait), and join parallel regions."


def _advice_for_messages(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    if has_tiny_messages(f):
        return "Send few large messages in place of many small ones."
    if has_large_share(f) or has_slow_transfers(f):
        return "Check whether more processes or threads run than there are cores; otherwise look at the network."
    if "n_messages" not in e and "call" in e:
        return without_messages(e["call"])
    return "Send less, send earlier without blocking, and compute while messages are on their way."


def _advice_for_calls(f: Facts, s: Subject) -> str:
    """Return the advice for the call with most time, else `FEWER_CALLS`."""
    call = f["evidence"].get("call", "").lower()
    return next((text for begin, text in CALLS.items() if call.startswith(begin)), FEWER_CALLS)


def _advice_for_collectives(f: Facts, s: Subject) -> str:
    is_barrier = "barrier" in f["evidence"].get("call", "").lower()
    if not has_large_share(f) and is_barrier:
        return FEWER_BARRIERS
    found = _advice_for_calls(f, s)
    if found != FEWER_CALLS:
        return found
    return SELDOM_LONG if has_large_share(f) else FEWER_COLLECTIVES


def _advice_for_pipelines(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    if not is_passed_on(f):
        return "Send earlier, or compute first what does not depend on the messages."
    if "n_blocks" not in e:
        return (
            "Send earlier, or compute first what does not depend on the messages; where ranks work in turn, divide the "
            "work into smaller blocks."
        )
    if is_token(f):
        return (
            "Let all ranks do it at the same time where the order does not matter, as with collective calls for files."
        )
    if is_too_short(f):
        return (
            f"Make blocks 1/{e['parts']:,} of their size: filling and draining the pipeline takes "
            f"{e['filling_with_parts']:.0%} of a sweep then, {e['filling']:.0%} now; let sweeps from neighbouring "
            "corners follow each other."
        )
    return "Divide the work into smaller blocks, so that the next rank can begin sooner; reorder sweeps."


def _advice_for_idle_devices(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    if e["in_memory"] > 0.5:
        return "Allocate memory once, before kernels are launched, or take it from a pool."
    if is_offloading(s):
        return (
            "Offload fewer and larger pieces: keep data on the device from one target region to the next (target "
            "data), and join small regions."
        )
    if launches_seldom(f):
        waits = ", and wait only after several" if 2 * e.get("n_waits", 0) > e["n_gaps"] else ""
        return (
            f"Launch several operations at once, as a graph, or join them{waits}: each takes the host longer than the "
            "device."
        )
    if not e["n_gaps"]:
        return (
            f"Launch the next operations before {s.region}, do it in another thread, or on the device, or make "
            "it shorter."
        )
    longest = short(e["regions"][0]) if e["regions"] else s.region
    most = f", most of all {longest}" if longest != s.region else ""
    return f"Shorten what hosts do between launches in {s.region}{most}, or launch the next operations earlier."


def _advice_for_stragglers(f: Facts, s: Subject) -> str:
    if f["evidence"]["unrecorded"] > 0.5 * f["evidence"]["waits"]:
        return (
            "Record the step before, too: most of the delay arises there. Then balance what the host does, as "
            "the loading of data."
        )
    if f["evidence"]["is_kernel"]:
        return (
            f"Balance the work of {s.region} over the ranks, as lengths of sequences in a batch, or shorten it there."
        )
    return f"Let the host do less in {s.region}, or launch the communication before it."


OF_BUSY_DEVICES = {
    DEVICE_KERNELS: (
        "kernels determine",
        "kernels",
        (
            "Make kernels shorter: join them, let them compute with less precision, or move less data; hosts wait for "
            "them."
        ),
    ),
    DEVICE_COPIES: (
        "copies determine",
        "copies",
        "Copy less, from pinned memory in large pieces, and while kernels run; hosts wait for the copies.",
    ),
}
"""By what devices do most of the time: subject and verb of the sentence, name of the operations, and advice."""

CALLS = {
    "mpi_file_open": "Open files once and seldom, by as few processes as need them.",
    "mpi_file_close": "Open and close files once, by as few processes as need them.",
    "mpi_file": "Read and write larger pieces, collectively; let several processes take part.",
    "mpi_win_create": "Creating windows synchronises their members; do it once and reuse them.",
    "mpi_win_allocate": "Creating windows synchronises their members; do it once and reuse them.",
    "mpi_win_free": "Freeing windows synchronises their members; create them once and reuse them.",
    "mpi_win_fence": (
        "Use fewer fences, with more between them, or synchronise with partners only (MPI_Win_post, MPI_Win_start)."
    ),
    "mpi_win_unlock": "Hold locks of windows shorter, or access different targets at a time.",
    "mpi_win_lock": "Hold locks of windows shorter, or access different targets at a time.",
    "mpi_win": "Synchronise windows less often, and balance the work before.",
    "mpi_comm": "Creating communicators synchronises their members; do it once and reuse them.",
    "mpi_cart": "Creating communicators synchronises their members; do it once and reuse them.",
}
"""Advice for other calls, by prefix of their names in lower case."""

SELDOM_LONG = (
    "Check whether more processes or threads run than there are cores; otherwise look at what these calls transfer, "
    "and at the network."
)
"""Advice for collective calls if few of them have most of the time."""

NO_MESSAGES = (
    "These calls complete no messages but other operations that do not block: compute longer between starting "
    "and completing them."
)
"""Advice for point-to-point communication without messages."""

PROBES = "Receive without probing where sender and size are known, or do something else until the message comes."
"""Advice for calls that look for messages."""


def without_messages(call: str) -> str:
    """Return the advice for point-to-point communication without messages in a call."""
    return PROBES if "probe" in call.lower() else NO_MESSAGES


FEWER_CALLS = "Call it less often, with more to do each time."
FEWER_BARRIERS = "Leave out barriers that no data depends on."
FEWER_COLLECTIVES = (
    "Join several operations into one, use a non-blocking one and compute meanwhile, or call it less often."
)

ADVICE: dict[str, str | Say] = {
    "computation": _advice_for_computation,
    "imbalance": lambda f, s: (
        "Distribute the work evenly; in loops of OpenMP try another schedule."
        if s.in_openmp
        else "Distribute the work evenly."
    ),
    "changing": lambda f, s: (
        "Balance the work of the kernels each time, as lengths of sequences in a batch, or let ranks wait for each "
        "other less often, so that differences average out."
        if f["evidence"].get("on_streams")
        else "Synchronise less often, so that differences average out, or distribute the work dynamically."
    ),
    "serial": "Do it in parallel, or let the other threads do something else meanwhile.",
    "single": "Divide it among the threads, or let the others go on meanwhile (nowait).",
    "turns": lambda f, s: (
        "Use collective calls, which join the data of several processes, one file for each process or node, or a file "
        "that is divided among several servers."
        if "in_line" in f["evidence"]
        else "Divide each execution among the processes, or let the others compute something else meanwhile."
    ),
    "slow": "Check whether cores are shared or the node is slower; if there is more to do, distribute the work anew.",
    "transfers": (
        "Let them run on a stream of their own while other kernels compute: launch each as soon as its data are ready, "
        "and wait for it where its result is needed; or send less."
    ),
    "copies": "Leave data on the device, copy only what is needed, or copy without blocking while kernels run.",
    "threads": "Create threads once and give them work again and again, or give each more to do.",
    "tasks": (
        "Create fewer tasks with more work each: stop dividing below a size (final, if), or use taskloop with a "
        "grain size."
    ),
    "grain": "Divide long tasks, or create them first, so that threads execute the others meanwhile.",
    "regions": _advice_for_regions,
    "messages": _advice_for_messages,
    "collectives": _advice_for_collectives,
    "calls": _advice_for_calls,
    "lock": lambda f, s: (
        "Do less in the ordered section, or collect results and use them in order after the loop."
        if _is_ordered(f)
        else "Hold the lock shorter, divide what it protects, or use reductions and atomic operations."
    ),
    "locking": lambda f, s: (
        "Let each thread collect its results and join them in the end (reduction), or update less often."
        if _is_atomic(f)
        else "Take locks less often, for several pieces of work at once; let each thread collect its results and join "
        "them in the end, or use atomic operations."
    ),
    "barrier": f"{FEWER_BARRIERS} Where they are needed, distribute the work between them dynamically.",
    "overlap": "Compute what does not depend on the messages between posting and completing them.",
    "pipeline": _advice_for_pipelines,
    "order": (
        "Receive messages in the order in which they are sent, or whichever comes first (MPI_Waitany, MPI_ANY_SOURCE)."
    ),
    "measurement": (
        "Leave short functions out of the recording (a filter of the measurement system) and measure again "
        "before anything else."
    ),
    "producer": (
        "Make it shorter, or let more threads do it: what they hand over is waited for; hand over larger portions."
    ),
    "straggler": _advice_for_stragglers,
    "idle": _advice_for_idle_devices,
}
"""Advice by kind of cause: a text, or what returns it if it depends on the evidence."""


# -- what proves it ------------------------------------------------------------------------------------------------


def evidence(f: Facts, s: Subject) -> str:
    """Write the quantities that prove a cause; empty if there are none."""
    e, kind, s = f["evidence"], f["kind"], _of_all(f, s)
    said: list[str] = []
    if kind == "slow":
        said.append(
            f"{seconds(e['mine'])} of computation{f' per {_parts(f)[:-1]}' * bool(f.get('is_process'))}, the others "
            f"{seconds(e['others'])}"
        )
        said.append(f"most of the difference in {listed(list(map(short, e['functions'])))}")
    elif e.get("mine") is not None:
        said += _of_computation(f, s)
    elif e.get("mean") is not None:
        mean, largest = seconds(e["mean"]), seconds(e["largest"])
        each = (
            f"{largest}{' each' * (e['n_locations'] > 1)}"
            if mean == largest
            else f"{mean} in the mean, {largest} at most"
        )
        said.append(f"{counted(e['n_locations'], _unit(f, s))}, {each}")
    if kind == "regions" and e.get("n_regions"):
        said.append(
            f"{s.region}: {counted(e['n_regions'], 'region')}, per thread and region {seconds(e['work_each'])} "
            f"of work, {seconds(e['lost_each'])} lost"
        )
    if e.get("n_created"):
        said.append(f"each computes {seconds(e['work_each'])}")
    if kind == "straggler":
        said += _of_straggler(e)
    if kind == "idle":
        said += _of_idle(e)
    if e.get("n_moved"):
        said.append(f"{e['n_moved']:,} of {counted(e['n_received'], 'message')} come in another order")
    if e.get("events_per_second"):
        said.append(f"{e['events_per_second']:,.3g} events of short functions per second of computation")
    if e.get("more"):
        said.append(f"likewise {', '.join(short(name) for name in e['more'])}")
    if "n_messages" in e:
        said.append(f"{counted(e['n_messages'], 'message')}, {size(e['bytes'])}, {size(e['mean_bytes'])} in the mean")
    if "n_blocks" in e:
        blocks = f"{counted(e['n_blocks'], 'block')} of {seconds(e['block'])}"
        said.append(
            f"a sweep is {blocks} through {e['n_ranks']:,} ranks, first blocks are waited for "
            f"{seconds(e['refill'])} in all"
        )
    # cubes of earlier versions lack it
    if e.get("n_sweeps", 1) > 1 and "overlapping" in e:
        part = f"messages of the next sweep are under way in {e['overlapping']:.0%} of their time"
        said.append(part if e["overlapping"] >= 0.005 else "messages of one sweep end before those of the next begin")
    if "median" in e:
        beyond = f", {seconds(e['beyond'])} of it beyond waiting" if e.get("beyond") else ""
        said.append(
            f"{counted(e['n_calls'], 'call')}, {seconds(e['median'])} in the median, {seconds(e['mean_call'])} "
            f"in the mean{beyond}"
        )
        if has_large_share(f):
            said.append(f"{e['n_long']:,} of them more than 10 times the median with {e['in_long']:.0%} of the time")
    if e.get("held_each"):
        what = "the section takes" if _is_ordered(f) else "the lock is held"
        said.append(f"{what} {seconds(e['held_each'])} each time, {seconds(e['held'])} in all")
    return "; ".join(said)


def calls(n: int, each: float, n_messages: int, n_bytes: int) -> str:
    """Describe the calls that have the time of a property: number, time of each, and sends and receives of messages."""
    if not n:
        return ""
    both = (
        f"; {counted(n_messages, 'send or receive', 'sends and receives')}, {size(n_bytes / n_messages)} in the mean"
        if n_messages
        else ""
    )
    return f"{counted(n, 'call')}, {seconds(each)} each in the mean{both}"


def _of_computation(f: Facts, s: Subject) -> Iterator[str]:
    """Describe how long locations compute, how long the others, and when."""
    e, each = f["evidence"], " each" if len(f.get("locations", ())) > 1 else ""
    others = f", the others {seconds(e['others'])}" if e.get("others") is not None else ""
    yield f"{s.region} takes {seconds(e['mine'])}{each} on {s.who}{others}"
    if e.get("n_pieces", 0) > 1:
        yield f"{e['n_pieces']:,} times {seconds(e['piece'])}{' on the first of them' * bool(each)}"
    if e.get("trend") in ("once", *PART_OF_RUN):
        time = f"the {_ordinal(e['number'])} time" if e["trend"] == "once" else _times(e, "time")
        yield f"{time}, at {seconds(e['when'])}"
    if e.get("shorter", 1) < 0.9:
        yield f"{e['shorter']:.0%} of it keeps others waiting"


def _of_straggler(e: Mapping[str, Any]) -> list[str]:
    """Describe how long others wait for a rank that is late, and what makes it late."""
    parts = {
        "on_host": "its host",
        "on_stream": "its kernels",
        "earlier": "its own waits for others",
        "unrecorded": "what is before the recording",
    }
    shares = [f"{words} ({e[name] / e['waits']:.0%})" for name, words in parts.items() if e[name] >= 0.005 * e["waits"]]
    return [
        (
            f"kernels of others wait {seconds(e['waits'])} for it ({e['share']:.0%} of such waits), in "
            f"{counted(e['n_last'], 'operation')}"
        ),
        f"caused by {', '.join(shares)}",
    ]


def _of_idle(e: Mapping[str, Any]) -> list[str]:
    """Describe how long devices have nothing to do, how often, and what hosts do meanwhile."""
    n = e["n_gaps"]
    gaps = f", {counted(n, 'time')} until something is launched, {seconds(e['idle'] / n)} each" if n else ""
    together = f" on devices of {e['n_processes']:,} processes together" if e["n_processes"] > 1 else ""
    named = zip(e["regions"], e["region_shares"], strict=True)
    # cubes of earlier versions lack it
    waits = e.get("n_waits", 0)
    return [
        f"{seconds(e['idle'])} without anything to do{together}{gaps}",
        f"hosts are then in {listed([f'{short(name)} ({share:.0%})' for name, share in named])}",
        *([f"they wait for a kernel right before the next launch, {counted(waits, 'time')}"] if waits else []),
    ]
