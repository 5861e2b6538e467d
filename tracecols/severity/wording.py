"""What an engineer would write of a cause: one line, what proves it, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tracecols.enhance.scan.paths import function_name
from tracecols.given.quantities import in_words

Facts = Mapping[str, Any]

TINY = 4096
"""Bytes up to which a message is small."""

MANY = 20
"""Messages that a region sends each time it is executed, from which on they are many."""

SMALL = 1e-3
"""Seconds of work up to which a parallel region may be too small."""

LATENCY, BANDWIDTH = 1e-5, 1e9
"""Seconds and bytes a second that a network has at worst."""

SLOWER = 10.0
"""How many times longer than that a transfer takes that is stalled."""

STALLED = 2e-3
"""Seconds that a thread loses in a small parallel region, from which on it is not the region itself that takes them."""

LONG = 0.5
"""Part of the time of calls that lies in few long ones, from which on that is said."""


class Subject(NamedTuple):
    """What is known of a cause besides its evidence.

    Attributes
    ----------
    region : str
        The region it is in.
    who : str
        The location or the process that causes it, in words; empty if all do.
    waits : str
        Title of the property that has most of the time lost.
    where : str
        The region in which most of it is lost.
    """

    region: str
    who: str
    waits: str
    where: str


LONGEST = 40
"""Characters of the name of a region in a sentence."""


def short(region: str) -> str:
    """Return the name of a region without types and arguments of functions, and without the middle of a long one."""
    name = function_name(region)
    return name if len(name) <= LONGEST else f"{name[:20]}...{name[-17:]}"


def seconds(value: float) -> str:
    """Write a duration with three digits."""
    return in_words(value, "seconds")


def number_of(n: int, one: str, many: str | None = None) -> str:
    """Write a count with its noun."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def size(n_bytes: float) -> str:
    """Write a number of bytes."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= factor:
            return f"{n_bytes / factor:.3g} {unit}"
    return f"{n_bytes:.0f} bytes" if n_bytes != 1 else "1 byte"


def in_wrong_order(s: Subject) -> bool:
    """Say whether messages that came in another order than they are received are most of it, and the order matters."""
    at_once = ("mpi_waitall", "mpi_waitsome", "mpi_testall", "mpi_testsome")
    return "Source" in s.waits and s.where.lower() not in at_once


def has_large_share(f: Facts) -> bool:
    """Say whether few long calls have most of the time of all."""
    e = f["evidence"]
    return e.get("in_long", 0) > LONG and 0 < e.get("n_long", 0) < 0.25 * e.get("n_calls", 0)


def has_tiny_messages(f: Facts) -> bool:
    """Say whether a region sends many small messages each time."""
    e = f["evidence"]
    return (
        "n_messages" in e
        and e["mean_bytes"] <= TINY
        and e["n_messages"] * 2 >= MANY * max(e.get("visits", 1), 1)
        and e["n_messages"] >= 100
    )


def has_slow_transfers(f: Facts) -> bool:
    """Say whether messages take much longer beyond waiting than any network needs for their sizes."""
    e = f["evidence"]
    return "transfer" in e and e["transfer"] > SLOWER * (LATENCY + e["mean_bytes"] / BANDWIDTH)


def are_too_small(f: Facts) -> bool:
    """Say whether parallel regions take longer beyond their work than for it."""
    e = f["evidence"]
    return 0 < e.get("work_each", 0) < SMALL and e["lost_each"] > 0.5 * e["work_each"]


def are_stalled(f: Facts) -> bool:
    """Say whether small parallel regions take so long that threads must have been kept from running."""
    return are_too_small(f) and f["evidence"]["lost_each"] > STALLED


# -- what ----------------------------------------------------------------------------------------------------------


def _computation(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    others = e.get("others")
    if in_wrong_order(s):
        return f"{s.where} receives messages in another order than they are sent; {s.who} in {s.region} sends late"
    if others is None:
        return f"only {s.who} executes {s.region}, and others wait for it"
    ratio = e["mine"] / others if others else 0
    trend = e.get("trend", "steady")
    longer = seconds(e["mine"] - others)
    verb = "compute" if f.get("is_process") else "computes"
    who = f"the threads of {s.who}" if f.get("is_process") else s.who
    if trend == "once":
        return f"{who} {verb} {longer} longer than the others in {s.region}, once in {e['n_pieces']:,} times"
    if trend == "every":
        return f"{who} {verb} {longer} longer than the others in {s.region}, every {_ordinal(e['step'])} time"
    if trend in ("growing", "shrinking"):
        return f"{who} {verb} ever {'longer' if trend == 'growing' else 'shorter'} in {s.region}: {longer} more than the others"
    if ratio >= 1.2:
        return f"{who} {verb} {ratio:.1f} times as long as the others in {s.region}"
    return f"{who} {verb} {longer} longer than the others in {s.region}"


def _ordinal(n: int) -> str:
    ending = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def _imbalance(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    ratio = e["largest"] / e["mean"] if e.get("mean") else 1
    return f"{s.region} is distributed unevenly over {e['n_locations']:,} threads: the longest takes {ratio:.2f} times the mean"


def _changing(f: Facts, s: Subject) -> str:
    return f"{s.region} takes longer now on one rank or thread, now on another; over the run all have the same"


def _serial(f: Facts, s: Subject) -> str:
    masters = "the master computes" if f["evidence"].get("n_locations") == 1 else "the masters compute"
    return f"{f'{s.who} computes' if s.who else masters} {s.region} alone while other threads idle"


def _regions(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    n = e.get("n_regions", 0)
    if n and are_stalled(f):
        return f"threads are stalled in {number_of(n, 'parallel region')} in {s.region}: each loses {seconds(e['lost_each'])}"
    if n and are_too_small(f):
        more = f", and small ones in {number_of(e['n_more'], 'other function')}" if e.get("n_more") else ""
        return f"{number_of(n, 'parallel region')} in {s.region} with {seconds(e['work_each'])} of work per thread each{more}"
    return f"parallel regions and barriers in {s.region} take long beyond their work"


def _messages(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    if has_tiny_messages(f):
        return f"{e['n_messages']:,} messages of {size(e['mean_bytes'])} in {s.region}"
    if has_large_share(f):
        return f"{number_of(e['n_long'], 'call')} of {e['n_calls']:,} in {s.region} take {e['in_long']:.0%} of their time: messages are stalled"
    if has_slow_transfers(f):
        return f"{number_of(e['n_messages'], 'message')} of {size(e['mean_bytes'])} in {s.region} take {seconds(e['transfer'])} each beyond waiting: messages are stalled"
    if "n_messages" in e:
        return f"the transfer of {number_of(e['n_messages'], 'message')} of {size(e['mean_bytes'])} in {s.region}"
    return f"point-to-point communication in {s.region} takes long beyond waiting"


def _collectives(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    if has_large_share(f):
        return f"{number_of(e['n_long'], 'collective call')} of {e['n_calls']:,} in {s.region} take {e['in_long']:.0%} of their time"
    n = e.get("n_calls", 0)
    return f"{number_of(n, 'collective call')} in {s.region} {'takes' if n == 1 else 'take'} long beyond waiting"


def _calls(f: Facts, s: Subject) -> str:
    who = f" by {s.who} alone" if s.who else ""
    call = s.where if s.where.lower().startswith(("mpi_", "shmem_")) else "a call of MPI"
    return f"{call} in {s.region}{who} takes long"


def _lock(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    held = f", {seconds(e['held_each'])} each time" if e.get("held_each") else ""
    if s.who:
        return f"{s.who} holds the lock of {s.region} longest{held}; others wait for it"
    who = "processes" if s.where.lower().startswith(("mpi_", "shmem_")) else "threads"
    where = f" ({short(s.where)})" if s.where not in ("", s.region) else ""
    return f"{who} wait for each other at the lock in {s.region}{where}{held}"


def _barrier(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    return f"processes wait at barriers in {s.region} ({number_of(e.get('n_calls', 0), 'call')}), now for one rank, now for another"


def _overlap(f: Facts, s: Subject) -> str:
    return f"{s.region} waits for its messages right after posting them; computation follows only then"


def is_passed_on(f: Facts) -> bool:
    """Say whether those who send have received themselves."""
    return bool(f["evidence"].get("passed_on", 1.0) >= 0.5)


def _pipeline(f: Facts, s: Subject) -> str:
    if not is_passed_on(f):
        return f"ranks wait for messages in {s.region} that are sent late"
    return f"ranks wait in turn for messages in {s.region}: a pipeline that is filled and drained"


def _producer(f: Facts, s: Subject) -> str:
    return f"threads wait for work from {s.who}, which needs too long for {s.region}"


def _order(f: Facts, s: Subject) -> str:
    who = s.who or "processes"
    verb = "receives" if s.who else "receive"
    return f"{who} {verb} messages in {s.region} in another order than they are sent, while others are there already"


def _measurement(f: Facts, s: Subject) -> str:
    e = f["evidence"]
    return f"{number_of(e['n_visits'], 'call')} of {s.region} of {seconds(e['visit'])} each: recording them takes a part of the time"


WHAT: dict[str, Callable[[Facts, Subject], str]] = {
    "computation": _computation,
    "imbalance": _imbalance,
    "changing": _changing,
    "serial": _serial,
    "regions": _regions,
    "messages": _messages,
    "collectives": _collectives,
    "calls": _calls,
    "lock": _lock,
    "barrier": _barrier,
    "overlap": _overlap,
    "pipeline": _pipeline,
    "producer": _producer,
    "order": _order,
    "measurement": _measurement,
}


def what(f: Facts, s: Subject) -> str:
    """Say in one line what the cause is."""
    n = f["evidence"].get("n_call_paths", 1)
    return WHAT[f["kind"]](f, s) + (f" (on {n:,} call paths)" if n > 1 else "")


# -- what to do ----------------------------------------------------------------------------------------------------


def advice(f: Facts, s: Subject) -> str:
    """Say what to do about a cause."""
    kind, e = f["kind"], f["evidence"]
    if kind == "computation":
        if in_wrong_order(s):
            return ADVICE["order"]
        if e.get("trend") == "once":
            return "Find out what happened then: input, output, another program on the node, or special work of this one time."
        if e.get("trend") == "every":
            return (
                f"Spread what happens every {_ordinal(e['step'])} time over all times, or over all ranks and threads."
            )
        if e.get("others") is None:
            return f"Let others take part in {s.region}, make it shorter, or let them do something else meanwhile."
        return f"Distribute the work of {s.region} evenly, or find out why it takes longer there."
    if kind == "regions":
        if are_stalled(f):
            return "Look whether more threads run than there are cores, and where they are bound; then join small parallel regions."
        if are_too_small(f):
            return f"Open one parallel region around all of {s.region}, or give small ones fewer threads (if clause)."
        return "Remove barriers that are not needed (nowait), and join parallel regions."
    if kind == "messages":
        if has_tiny_messages(f):
            return "Send few large messages in place of many small ones."
        if has_large_share(f) or has_slow_transfers(f):
            return "Look whether more processes or threads run than there are cores; otherwise look at the network."
        return "Send less, send earlier without blocking, and compute while messages are on their way."
    if kind == "collectives" and has_large_share(f):
        return "Look whether more processes or threads run than there are cores; otherwise look at the network."
    if kind == "pipeline" and not is_passed_on(f):
        return "Send earlier, or compute first what does not depend on the messages."
    if kind == "calls":
        return next((text for begin, text in CALLS.items() if s.where.lower().startswith(begin)), ADVICE[kind])
    return ADVICE[kind]


CALLS = {
    "mpi_file_open": "Open files once and seldom, by as few processes as need them.",
    "mpi_file_close": "Open and close files once, by as few processes as need them.",
    "mpi_file": "Read and write larger pieces, collectively; let several processes take part.",
    "mpi_win_lock": "Hold locks of windows shorter, or access different targets at a time.",
    "mpi_win": "Synchronise windows less often, and balance the work before.",
    "mpi_comm": "Creating communicators synchronises their members; do it once and reuse them.",
    "mpi_cart": "Creating communicators synchronises their members; do it once and reuse them.",
    "mpi_probe": "Let the sender send earlier, or do something else until the message comes.",
}
"""What to do about other calls, by what their names begin with."""

ADVICE = {
    "imbalance": "Distribute the work evenly; in loops of OpenMP try another schedule.",
    "changing": "Synchronise less often, so that differences average out, or distribute the work dynamically.",
    "serial": "Do it in parallel, or let the other threads do something else meanwhile.",
    "collectives": "Join several operations into one, use a non-blocking one and compute meanwhile, or call it less often.",
    "calls": "Call it less often, with more to do each time.",
    "lock": "Hold the lock shorter, divide what it protects, or use reductions and atomic operations.",
    "barrier": "Leave out barriers that no data depends on.",
    "overlap": "Compute what does not depend on the messages between posting and completing them.",
    "pipeline": "Divide the work into smaller blocks, so that the next rank can begin sooner; reorder sweeps.",
    "order": "Receive messages in the order in which they are sent, or whichever comes first (MPI_Waitany, MPI_ANY_SOURCE).",
    "measurement": "Leave short functions out of the recording (a filter of the measurement system) and measure again before anything else.",
    "producer": "Give out work earlier or in larger portions, let several threads produce it, or use fewer consumers.",
}
"""By kind of cause what to do about it, where that depends on nothing else."""


# -- what proves it ------------------------------------------------------------------------------------------------


def evidence(f: Facts, s: Subject) -> str:
    """Write the quantities that prove a cause; empty if there are none."""
    e, kind = f["evidence"], f["kind"]
    said: list[str] = []
    if e.get("mine") is not None:
        others = f", the others {seconds(e['others'])}" if e.get("others") is not None else ""
        said.append(f"{s.region} takes {seconds(e['mine'])} on {s.who}{others}")
        if e.get("n_pieces", 0) > 1:
            said.append(f"{number_of(e['n_pieces'], 'piece')} of {seconds(e['piece'])}")
        if e.get("trend") == "once":
            said.append(f"the {_ordinal(e['number'])} piece, at {seconds(e['when'])}")
        if e.get("shorter", 1) < 0.9:
            said.append(f"{e['shorter']:.0%} of it keeps others waiting")
    elif e.get("mean") is not None:
        said.append(
            f"{number_of(e['n_locations'], 'thread')}, {seconds(e['mean'])} in the mean, {seconds(e['largest'])} at most"
        )
    if kind == "regions" and e.get("n_regions"):
        said.append(
            f"{s.region}: {number_of(e['n_regions'], 'region')}, per thread and region {seconds(e['work_each'])} of work, {seconds(e['lost_each'])} lost"
        )
    if e.get("n_moved"):
        said.append(f"{e['n_moved']:,} of {number_of(e['n_received'], 'message')} come in another order")
    if e.get("events_per_second"):
        said.append(f"{e['events_per_second']:,.3g} events of short functions per second of computation")
    if e.get("more"):
        said.append(f"likewise {', '.join(short(name) for name in e['more'])}")
    if "n_messages" in e:
        said.append(f"{number_of(e['n_messages'], 'message')}, {size(e['bytes'])}, {size(e['mean_bytes'])} in the mean")
    if "median" in e:
        said.append(
            f"{number_of(e['n_calls'], 'call')}, {seconds(e['median'])} in the median, {seconds(e['mean_call'])} in the mean"
        )
        if has_large_share(f):
            said.append(f"{e['n_long']:,} of them more than 10 times the median with {e['in_long']:.0%} of the time")
    if e.get("held_each"):
        said.append(f"the lock is held {seconds(e['held_each'])} each time, {seconds(e['held'])} in all")
    return "; ".join(said)
