"""Join of copies and the calls that request them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import Columns, pick
from tracecols.enhance.dataflow.grouping import combine, join_occurrences, latest_before, mask_of, pair_with_previous
from tracecols.enhance.definitions.regions import COPY
from tracecols.enhance.devices.calls import BEFORE, LACKING, TO_DEVICE, TO_HOST, UNKNOWN, WITHIN_DEVICES, DeviceCalls
from tracecols.enhance.scan.instances import attributed_events
from tracecols.schema import EventKind as K
from tracecols.schema.enums import COPIED_BYTES
from tracecols.vectors import Ints, Mask

ENDS = mask_of((K.RMA_OP_COMPLETE_BLOCKING, K.RMA_OP_COMPLETE_NON_BLOCKING, K.RMA_OP_COMPLETE_REMOTE))


def find_copies(d: DeviceCalls, regions: Ints) -> Columns:
    """Find the copies, and join them with the calls that request them."""
    c = d.calls
    e = attributed_events(d.facts, d.scans, d.members, c, "rma", ["window", "remote", "sent", "received", "matching"])
    key = combine(e.location, e.window, e.matching)
    is_begin = mask_of((K.RMA_PUT, K.RMA_GET))[e.kind]
    partner = pair_with_previous(key, is_begin, ENDS[e.kind])
    begin = np.flatnonzero(is_begin)
    recorder = e.location[begin].astype(np.int64)
    remote = location_of(d, e.window[begin], e.remote[begin])
    by_device, far = d.is_device[recorder], pick(d.is_device, remote, 0)
    mine = by_device | far
    begin, recorder, remote, by_device, far = (x[mine] for x in (begin, recorder, remote, by_device, far))
    is_put = e.kind[begin] == K.RMA_PUT
    known = (remote >= 0) | ~by_device
    # a put by a stream goes to the host, a get comes from it; for hosts it is the other way round
    direction = np.where(is_put == by_device, TO_HOST, TO_DEVICE)
    direction = np.where(by_device & far, WITHIN_DEVICES, np.where(known, direction, UNKNOWN))
    end = partner[begin]
    d.count("copies that never end", (end < 0).sum())
    own_call = np.where(by_device, -1, e.call[begin])

    rma = {
        "location": np.where(by_device, recorder, remote),
        "row": e.row[begin],
        "begin": e.time[begin],
        "end": np.where(end >= 0, e.time[end], e.time[begin]),
        "direction": direction,
        "bytes": np.where(is_put, e.sent[begin], e.received[begin]),
        "request": own_call,
        "number": np.full(begin.size, -1, np.int64),
    }
    # if a stream has recorded RMA operations, its regions represent the same copies
    regions = regions[~np.isin(c.location[regions], rma["location"])]
    there = {
        "location": c.location[regions],
        "row": c.enter[regions],
        "begin": c.enter_time[regions],
        "end": c.exit_time[regions],
        "direction": d.toward[d.region[regions]],
        "bytes": d.attribute(COPIED_BYTES)[regions],
        "request": np.full(regions.size, -1),
        "number": regions,
    }
    both = {name: np.concatenate([rma[name], there[name]]).astype(np.int64) for name in rma}
    both["end"] = np.maximum(both["begin"], both["end"])
    order = np.lexsort((both["row"], both["begin"]))
    found = Columns(order.size, {name: values[order] for name, values in both.items()})
    process = d.facts.process[found.location].astype(np.int64)
    request = find_requests(d, found, process)
    request[request == LACKING] = -1
    unknown = request == -1
    d.count("copies requested before the piece", (request == BEFORE).sum())
    d.count("copies whose call is not known", unknown.sum())
    d.count("copies without bytes", (found.bytes < 0).sum())
    return Columns(len(found), {**{n: found[n] for n in found.names}, "process": process, "request": request})


def location_of(d: DeviceCalls, window: NDArray[Any], remote: NDArray[Any]) -> Ints:
    """Return the location at a rank of the communicator of a window; -1 none."""
    definitions = d.facts.store.definitions
    members = definitions["communicators"].column("members").to_pylist()
    of_window = [c if 0 <= c < len(members) else -1 for c in definitions["windows"].column("communicator").to_pylist()]
    sizes = np.array([len(members[c]) if c >= 0 else 0 for c in of_window] + [0], np.int64)
    flat = np.array([m for c in of_window if c >= 0 for m in members[c]], np.int64)
    start = np.cumsum(sizes) - sizes
    w = window.astype(np.int64)
    inside = (w >= 0) & (remote >= 0) & (remote < sizes[w])
    return pick(flat, np.where(inside, start[w] + remote, -1))


def find_requests(d: DeviceCalls, copies: Columns, process: Ints) -> Ints:
    """Find the call that requests each copy; -1 if unknown, or BEFORE or LACKING."""
    c = d.calls
    is_correlated, request = d.correlated(copies.number, process)
    request = np.where(is_correlated, np.where(request == -1, LACKING, request), copies.request)
    calls = d.of_kind(d.innermost(COPY))
    for stream in d.pending.streams("copy") if len(copies) else ():
        # the first copies of a stream were requested before the start of the slice
        n = max(d.pending.of_stream("copy", stream), 0)
        request[np.flatnonzero((copies.location == stream) & (request == -1))[:n]] = BEFORE
    if not calls.number.size or not len(copies):
        return request
    toward = d.toward[d.region[calls.number]]
    taken = np.isin(calls.number, request[request >= 0])
    is_async = d.facts.regions.whose_name(lambda n: "async" in n)
    blocks = (calls.stream < 0) & ~is_async[d.region[calls.number]]
    enter, leave = c.enter_time[calls.number], c.exit_time[calls.number]

    def join_streams(streams: Mask) -> None:
        """Join the k-th call that refers to a stream with the k-th copy on it, for some streams."""
        a, b = np.flatnonzero((calls.stream >= 0) & ~taken), np.flatnonzero(request == -1)
        a, b = a[streams[calls.stream[a]]], b[streams[copies.location[b]]]
        found = join_occurrences(calls.stream[a], copies.location[b])
        request[b] = pick(calls.number[a], found)
        taken[a[found[found >= 0]]] = True

    # streams for which the numbers of calls and copies agree
    counts = [
        np.bincount(x, minlength=d.facts.n_locations)
        for x in (calls.stream[(calls.stream >= 0) & ~taken], copies.location[request == -1])
    ]
    join_streams(counts[0] == counts[1])
    # a blocking call requests the last copy that ends in it, of the same direction if its name indicates one
    for same in (True, False):
        b = np.flatnonzero((request == -1) & ((copies.direction != UNKNOWN) | (not same)))
        a = np.flatnonzero(blocks & ~taken & ((toward != UNKNOWN) == same))
        if not a.size or not b.size:
            continue
        of_copies = process[b] * 4 + (copies.direction[b] if same else 0)
        of_calls = calls.process[a] * 4 + (toward[a] if same else 0)
        at = latest_before(of_copies, copies.end[b], of_calls, leave[a])
        holds = (at >= 0) & (copies.begin[b[at]] >= enter[a])
        # if calls overlap, the one that began last
        request[b[at[holds]]] = calls.number[a[holds]]
        taken[np.isin(calls.number, request[b])] = True
    join_streams(np.ones(d.facts.n_locations, bool))
    # the rest of a direction in order, if there are as many calls as copies
    a, b = np.flatnonzero(~taken & (calls.stream < 0)), np.flatnonzero(request == -1)
    left, right = calls.process[a] * 4 + toward[a], process[b] * 4 + copies.direction[b]
    for key in np.intersect1d(left, right).tolist():
        of_calls, of_copies = a[left == key], b[right == key]
        if of_calls.size == of_copies.size and (c.enter_time[calls.number[of_calls]] <= copies.begin[of_copies]).all():
            request[of_copies] = calls.number[of_calls]
    return request
