"""Scan the text of a Kineto trace for slices, byte by byte, without building objects.

The text of `traceEvents` comes in windows; the scanner reads as many whole events as a window holds. Times are decimal
numbers of microseconds with up to three digits after the point: read from the text, they are exact in 64-bit
nanoseconds; read as floating-point numbers, they are not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import inner_part, kernel, part

(
    AT, N_SLICES, N_DETAILS, N_NAMES, N_BYTES, N_CATEGORIES, N_CATEGORY_BYTES, N_SLOTS, N_NEGATIVE, N_UNTIMED,
    N_STRANGE, SCAN_STATE,
) = range(12)  # fmt: skip
"""State of a scan."""

(END, INCOMPLETE, BUFFERS_FULL, NAMES_FULL, SLOTS_FULL, BAD_EVENT, BAD_TIME, TOO_LARGE) = range(8)
"""Status of a scan."""

CATEGORIES = (
    "", "cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver", "kernel", "gpu_memcpy",
    "gpu_memset", "gpu_user_annotation", "cuda_sync", "overhead", "Trace", "Operator", "Runtime", "Kernel", "Memcpy",
    "Memset", "xpu_runtime", "xpu_driver", "privateuse1_runtime", "privateuse1_driver", "mtia_runtime",
    "mtia_ccp_events", "glow_runtime", "runtime", "driver", "hpu_op", "collective_comm", "musa_runtime", "musa_driver",
    "gcu_runtime", "gcu_driver", "GCU_MEMCPY", "GCU_MEMSET", "mlu_runtime", "mlu_memcpy", "mlu_memset",
)  # fmt: skip
"""Known categories, by number; the empty one is for events without a category. Those from `Operator` on are other names
of the first ones: names used in 2021 and 2022, and by devices without CUDA."""
CPU_OP, USER_ANNOTATION, PYTHON_FUNCTION, CUDA_RUNTIME, CUDA_DRIVER, KERNEL, MEMCPY, MEMSET = range(1, 9)
LAST_KEPT = MEMSET
CUDA_SYNC = CATEGORIES.index("cuda_sync")
_SAME_AS = (
    CPU_OP, CUDA_RUNTIME, KERNEL, MEMCPY, MEMSET, CUDA_RUNTIME, CUDA_DRIVER, CUDA_RUNTIME, CUDA_DRIVER, CUDA_RUNTIME,
    KERNEL, CUDA_RUNTIME, CUDA_RUNTIME, CUDA_DRIVER, CUDA_RUNTIME, CPU_OP, CUDA_RUNTIME, CUDA_DRIVER, CUDA_RUNTIME,
    CUDA_DRIVER, MEMCPY, MEMSET, CUDA_RUNTIME, MEMCPY, MEMSET,
)  # fmt: skip
"""The categories that the last ones are other names of."""
_FIRST_OTHER = len(CATEGORIES) - len(_SAME_AS)

MOST_CATEGORIES = 1 << 12
"""Maximum number of categories that are counted separately."""

PHASES = ("X", "s", "t", "f", "M", "i", "C", "")
"""Phases of events that are counted separately: slices, flows, metadata, instants, counters, others."""
_SLICE, _METADATA, _OTHER = 0, 4, 7

(NO_DETAIL, COLLECTIVE, PARAM_COMMS, ANNOTATION, METADATA, SYNC) = range(6)
"""Events whose arguments are read in Python: kernels of collective operations (for gloo, ranges on its threads), the
operators that record their parameters, annotations around them, names of threads, and what calls wait for."""

FIELDS = 17
(
    _PH, _CAT, _CAT_END, _NAME, _NAME_END, _PID, _HAS_PID, _TID, _HAS_TID, _TS, _HAS_TS, _DUR, _HAS_DUR, _ARGS,
    _ARGS_END, _CORRELATION, _SIZE,
) = range(FIELDS)  # fmt: skip

_NUMBER, _NO_NUMBER, _HUGE = 1, 0, 2
_LARGEST = np.int64(1 << 62)
_NEAR_OVERFLOW = np.int64((2**63 - 1) // 10)
_QUOTE, _BACKSLASH, _OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST, _COMMA, _COLON = 34, 92, 123, 125, 91, 93, 44, 58
_PRIME, _OFFSET = np.uint64(0x100000001B3), np.uint64(0xCBF29CE484222325)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


class Slices(NamedTuple):
    """Slices in the order of the text."""

    begin: NDArray[np.int64]
    duration: NDArray[np.int64]
    """`begin` and `duration`: (capacity,), nanoseconds, without the base of the file."""
    name: NDArray[np.int32]
    """(capacity,): number of the name, which also determines the category."""
    slot: NDArray[np.int32]
    """(capacity,): thread or stream."""
    correlation: NDArray[np.int64]
    """(capacity,): identifier shared by a runtime call and its kernels and copies; -1 none."""
    size: NDArray[np.int64]
    """(capacity,): bytes of a copy; -1 unknown."""


class Details(NamedTuple):
    """Events whose arguments are read in Python."""

    slice: NDArray[np.int64]
    """(capacity,): number among the slices of the buffer; -1 for events that are no slices of it."""
    kind: NDArray[np.uint8]
    """(capacity,)"""
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    """`start` and `end`: (capacity,), range of the arguments (for metadata, of the event) in the window; equal if there
    are none."""


class Names(NamedTuple):
    """Distinct texts, as they are written in the file."""

    slots: NDArray[np.int64]
    """(2**n,): number of a text, by hash; -1 empty."""
    start: NDArray[np.int64]
    """(capacity + 1,): start of each in `text`."""
    what: NDArray[np.uint8]
    """(capacity,): category of the slices that it names."""
    detail: NDArray[np.uint8]
    """(capacity,): which arguments of such slices are read in Python."""
    text: NDArray[np.uint8]
    """(any,)"""


class Slots(NamedTuple):
    """Threads and streams."""

    slots: NDArray[np.int64]
    """(2**n,): number of a thread or stream, by hash; -1 empty."""
    is_device: NDArray[np.uint8]
    """(capacity,)"""
    pid: NDArray[np.int64]
    tid: NDArray[np.int64]
    """`pid` and `tid`: (capacity,)"""


class Known(NamedTuple):
    """Texts, threads and streams, each once."""

    categories: Names
    names: Names
    slots: Slots


# -- JSON --------------------------------------------------------------------------------------------------------------


@inner_part
def end_of_text(data, n, p):
    """Return the position of the quote that ends a text; n if the window ends before it."""
    while p < n:
        c = data[p]
        if c == _QUOTE:
            return p
        p += 2 if c == _BACKSLASH else 1
    return n


@inner_part
def after_space(data, n, p):
    """Return the position of the first byte that is not white space."""
    while p < n and data[p] <= 32:
        p += 1
    return p


@part
def after_nested(data, n, p):
    """Return the position after an object or a list that begins at p; n + 1 if the window ends before it."""
    depth = 0
    while p < n:
        c = data[p]
        if c == _QUOTE:
            p = end_of_text(data, n, p + 1)
        elif c == _OPEN or c == _OPEN_LIST:
            depth += 1
        elif c == _CLOSE or c == _CLOSE_LIST:
            depth -= 1
            if depth == 0:
                return p + 1
        p += 1
    return n + 1


@part
def after_value(data, n, p):
    """Return the position after a value; n + 1 if the window ends before it is known to be complete."""
    if p >= n:
        return n + 1
    c = data[p]
    if c == _QUOTE:
        return end_of_text(data, n, p + 1) + 1
    if c == _OPEN or c == _OPEN_LIST:
        return after_nested(data, n, p)
    while p < n:
        c = data[p]
        if c == _COMMA or c == _CLOSE or c == _CLOSE_LIST or c <= 32:
            return p
        p += 1
    return n + 1


@inner_part
def read_decimal(data, n, p, scale):
    """Read a decimal number times 10**scale, rounded to the nearest integer; return it, its status (`_NUMBER`,
    `_NO_NUMBER` or `_HUGE`), and the position after it.

    The result is exact whatever the length of the text: digits are accumulated in integers, never in floating point.
    """
    negative = data[p] == 45
    if negative:
        p += 1
    value, after_point, dropped, is_up = np.int64(0), 0, 0, False
    start, in_fraction = p, False
    while p < n:
        c = data[p]
        if 48 <= c <= 57:
            if dropped == 0 and value < _NEAR_OVERFLOW:
                value = value * 10 + np.int64(c - 48)
            else:
                if dropped == 0:
                    is_up = c >= 53
                dropped += 1
            if in_fraction:
                after_point += 1
        elif c == 46 and not in_fraction and p > start:
            in_fraction = True
        else:
            break
        p += 1
    if p == start or data[p - 1] == 46:
        return np.int64(0), _NO_NUMBER, p
    exponent = 0
    if p < n and (data[p] == 101 or data[p] == 69):
        p += 1
        below = p < n and data[p] == 45
        if p < n and (data[p] == 45 or data[p] == 43):
            p += 1
        first = p
        while p < n and 48 <= data[p] <= 57:
            exponent = min(exponent * 10 + np.int64(data[p] - 48), 1 << 30)
            p += 1
        if p == first:
            return np.int64(0), _NO_NUMBER, p
        if below:
            exponent = -exponent
    shift = exponent + scale - after_point + dropped
    if shift >= 0 and value == 0:
        shift = 0
    while shift > 0:
        if value > _LARGEST // 10:
            return np.int64(0), _HUGE, p
        value *= 10
        shift -= 1
    while shift < 0 and (value > 0 or is_up):
        is_up = value % 10 >= 5
        value //= 10
        shift += 1
    if is_up:
        value += 1
    return (-value if negative else value), _NUMBER if value <= _LARGEST else _HUGE, p


@inner_part
def read_integer(data, n, p):
    """Read an integer; return it and its status, see `read_decimal`."""
    value, what, q = read_decimal(data, n, p, 0)
    if what == _NUMBER:
        for i in range(p, q):
            if data[i] == 46 or data[i] == 101 or data[i] == 69:
                return np.int64(0), _NO_NUMBER
    return value, what


@inner_part
def read_number(data, q, p):
    """Read the number of a process, thread or stream; up to 2022 these are texts, "456" and "stream 7"."""
    if data[p] == _QUOTE:
        p, q = p + 1, q - 1
        if q - p > len(_STREAM) and is_text(data, p, _STREAM):
            p += len(_STREAM)
        for i in range(p, q):
            if data[i] < 48 or data[i] > 57:
                return np.int64(0), _NO_NUMBER
    return read_integer(data, q, p)


@inner_part
def is_text(data, p, text):
    """Return whether a text is at position p; it must fit there."""
    same = True
    for i in range(len(text)):
        same = same and data[p + i] == text[i]
    return same


_PH_KEY, _TS_KEY, _CAT_KEY, _PID_KEY, _TID_KEY, _DUR_KEY, _NAME_KEY, _ARGS_KEY = (
    tuple(key.encode()) for key in ("ph", "ts", "cat", "pid", "tid", "dur", "name", "args")
)
_STREAM = tuple(b"stream ")
_CORRELATION_KEY, _BYTES_KEY, _COLLECTIVE_KEY = (tuple(k.encode()) for k in ("correlation", "bytes", "Collective name"))
_NCCL, _CCL, _NCCL_RANGE, _GLOO_RANGE, _PARAM_COMMS = (
    tuple(k.encode()) for k in ("nccl", "oneccl", "nccl:", "gloo:", "record_param_comms")
)


@part
def read_field(data, n, key, length, p, fields):
    """Read the value at p of a key of an event; return the position after it, n + 1 if the window ends before."""
    q = after_value(data, n, p)
    if q > n:
        return q
    is_string = data[p] == _QUOTE
    if length == 2 and is_text(data, key, _PH_KEY):
        if is_string and q == p + 3:
            fields[_PH] = data[p + 1]
    elif length == 2 and is_text(data, key, _TS_KEY):
        fields[_TS], fields[_HAS_TS] = whole_decimal(data, p, q)
        if is_string:
            fields[_HAS_TS] = -1
    elif length == 3 and is_text(data, key, _CAT_KEY):
        if is_string:
            fields[_CAT], fields[_CAT_END] = p + 1, q - 1
    elif length == 3 and is_text(data, key, _PID_KEY):
        fields[_PID], fields[_HAS_PID] = read_number(data, q, p)
    elif length == 3 and is_text(data, key, _TID_KEY):
        fields[_TID], fields[_HAS_TID] = read_number(data, q, p)
    elif length == 3 and is_text(data, key, _DUR_KEY):
        fields[_DUR], fields[_HAS_DUR] = whole_decimal(data, p, q)
        if is_string:
            fields[_HAS_DUR] = -1
    elif length == 4 and is_text(data, key, _NAME_KEY):
        if is_string:
            fields[_NAME], fields[_NAME_END] = p + 1, q - 1
    elif length == 4 and is_text(data, key, _ARGS_KEY) and data[p] == _OPEN:
        fields[_ARGS], fields[_ARGS_END] = p, q
    return q


@inner_part
def whole_decimal(data, p, q):
    """Read the microseconds between two positions as nanoseconds; return them and their status."""
    value, what, end = read_decimal(data, q, p, 3)
    return value, what if end == q else _NO_NUMBER


@part
def scan_event(data, n, p, fields):
    """Find the fields of the event that begins at p; return the position after it, n + 1 if the window ends before, -1
    if it is not JSON."""
    fields[:] = 0
    fields[_CORRELATION] = fields[_SIZE] = -1
    p = after_space(data, n, p + 1)
    if p < n and data[p] == _CLOSE:
        return p + 1
    while p < n:
        if data[p] != _QUOTE:
            return -1
        key = p + 1
        end = end_of_text(data, n, key)
        p = after_space(data, n, end + 1)
        if p >= n:
            break
        if data[p] != _COLON:
            return -1
        p = after_space(data, n, p + 1)
        start = p
        p = read_field(data, n, key, end - key, p, fields)
        if p > n:
            break
        if p == start:
            return -1
        p = after_space(data, n, p)
        if p >= n:
            break
        if data[p] == _CLOSE:
            return p + 1
        if data[p] != _COMMA:
            return -1
        p = after_space(data, n, p + 1)
    return n + 1


@part
def read_arguments(data, fields):
    """Find correlation and bytes among the arguments of an event; return whether these name a collective operation."""
    n, p = fields[_ARGS_END], fields[_ARGS] + 1
    is_collective = False
    while True:
        p = after_space(data, n, p)
        if p >= n or data[p] != _QUOTE:
            break
        key = p + 1
        end = end_of_text(data, n, key)
        p = after_space(data, n, end + 1)
        if p >= n or data[p] != _COLON:
            break
        p = after_space(data, n, p + 1)
        q = after_value(data, n, p)
        if q > n:
            break
        length = end - key
        if length == 11 and is_text(data, key, _CORRELATION_KEY):
            value, what = read_integer(data, q, p)
            fields[_CORRELATION] = value if what == _NUMBER and value >= 0 else -1
        elif length == 5 and is_text(data, key, _BYTES_KEY):
            value, what = read_integer(data, q, p)
            fields[_SIZE] = value if what == _NUMBER and value >= 0 else -1
        elif length == 15 and is_text(data, key, _COLLECTIVE_KEY):
            is_collective = True
        p = after_space(data, n, q)
        if p >= n or data[p] != _COMMA:
            break
        p += 1
    return is_collective


# -- texts and threads, each once --------------------------------------------------------------------------------------


@inner_part
def hash_of(data, start, end, what):
    """Return the hash of a text."""
    h = _OFFSET ^ np.uint64(what)
    for i in range(start, end):
        h = (h ^ np.uint64(data[i])) * _PRIME
    return h


@inner_part
def slot_of(h, size):
    """Return the first slot to probe for a hash."""
    return np.int64((h * _SPREAD) >> _SHIFT) & (size - 1)


@part
def find_name(data, start, end, what, names, n_names, n_bytes):
    """Return the number of a text; -1 if it is new and was added, -2 if it is new and there is no room."""
    size, length = names.slots.size, end - start
    at = slot_of(hash_of(data, start, end, what), size)
    while names.slots[at] >= 0:
        k = names.slots[at]
        first = names.start[k]
        if names.what[k] == what and names.start[k + 1] - first == length:
            i = 0
            while i < length and names.text[first + i] == data[start + i]:
                i += 1
            if i == length:
                return k
        at = (at + 1) & (size - 1)
    if 2 * (n_names + 1) > size or n_names >= names.what.size or n_bytes + length > names.text.size:
        return np.int64(-2)
    for i in range(length):
        names.text[n_bytes + i] = data[start + i]
    names.slots[at] = n_names
    names.start[n_names], names.start[n_names + 1] = n_bytes, n_bytes + length
    names.what[n_names] = what
    names.detail[n_names] = detail_of(data, start, length, what)
    return np.int64(-1)


@part
def detail_of(data, start, length, what):
    """Return which arguments of slices of a name and category are read in Python."""
    if what == KERNEL:
        if length >= 4 and is_text(data, start, _NCCL):
            return COLLECTIVE
        return COLLECTIVE if length >= 6 and is_text(data, start, _CCL) else NO_DETAIL
    if what == CPU_OP and length == 18 and is_text(data, start, _PARAM_COMMS):
        return PARAM_COMMS
    if what == CPU_OP and length > 5 and is_text(data, start, _NCCL_RANGE):
        return ANNOTATION
    if what == USER_ANNOTATION and length > 5:
        if is_text(data, start, _NCCL_RANGE):
            return ANNOTATION
        return COLLECTIVE if is_text(data, start, _GLOO_RANGE) else NO_DETAIL
    return NO_DETAIL


@part
def find_slot(is_device, pid, tid, slots, state):
    """Return the number of a thread or stream, adding it if it is new; -2 if there is no room."""
    size = slots.slots.size
    h = (np.uint64(pid) * _PRIME ^ np.uint64(tid)) * _PRIME ^ np.uint64(is_device)
    at = slot_of(h, size)
    while slots.slots[at] >= 0:
        k = slots.slots[at]
        if slots.is_device[k] == is_device and slots.pid[k] == pid and slots.tid[k] == tid:
            return k
        at = (at + 1) & (size - 1)
    k = state[N_SLOTS]
    if 2 * (k + 1) > size or k >= slots.pid.size:
        return np.int64(-2)
    slots.slots[at] = k
    slots.is_device[k], slots.pid[k], slots.tid[k] = is_device, pid, tid
    state[N_SLOTS] = k + 1
    return k


@kernel
def rehash(names, n_names):
    """Rebuild the hash slots of an enlarged table of texts."""
    names.slots[:] = -1
    size = names.slots.size
    for k in range(n_names):
        at = slot_of(hash_of(names.text, names.start[k], names.start[k + 1], names.what[k]), size)
        while names.slots[at] >= 0:
            at = (at + 1) & (size - 1)
        names.slots[at] = k


@kernel
def rehash_slots(slots, n_slots):
    """Rebuild the hash slots of an enlarged table of threads and streams."""
    slots.slots[:] = -1
    size = slots.slots.size
    for k in range(n_slots):
        h = (np.uint64(slots.pid[k]) * _PRIME ^ np.uint64(slots.tid[k])) * _PRIME ^ np.uint64(slots.is_device[k])
        at = slot_of(h, size)
        while slots.slots[at] >= 0:
            at = (at + 1) & (size - 1)
        slots.slots[at] = k


# -- events ------------------------------------------------------------------------------------------------------------


@inner_part
def phase_of(code):
    """Return the number of a phase among `PHASES`."""
    if code == 88:
        return 0
    if code == 115:
        return 1
    if code == 116:
        return 2
    if code == 102:
        return 3
    if code == 77:
        return 4
    if code == 105 or code == 73:
        return 5
    return 6 if code == 67 else _OTHER


@part
def category_of(data, fields, categories, state):
    """Return the number of the category of an event, that of CUDA for all devices; the last number if there are too
    many categories to count separately."""
    k = find_name(data, fields[_CAT], fields[_CAT_END], 0, categories, state[N_CATEGORIES], state[N_CATEGORY_BYTES])
    if k == -1:
        k = state[N_CATEGORIES]
        state[N_CATEGORIES] += 1
        state[N_CATEGORY_BYTES] += fields[_CAT_END] - fields[_CAT]
    if k >= _FIRST_OTHER and k < _FIRST_OTHER + len(_SAME_AS):
        return np.int64(_SAME_AS[k - _FIRST_OTHER])
    return np.int64(MOST_CATEGORIES - 1) if k < 0 else k


@part
def keep_slice(data, category, fields, names, slots, slices, details, state):
    """Keep a slice; return END, or which table is full."""
    k = find_name(data, fields[_NAME], fields[_NAME_END], category, names, state[N_NAMES], state[N_BYTES])
    if k == -2:
        return NAMES_FULL
    if k == -1:
        k = state[N_NAMES]
        state[N_NAMES] += 1
        state[N_BYTES] += fields[_NAME_END] - fields[_NAME]
    slot = find_slot(np.uint8(category >= KERNEL), fields[_PID], fields[_TID], slots, state)
    if slot < 0:
        return SLOTS_FULL
    detail = names.detail[k]
    if category >= CUDA_RUNTIME and fields[_ARGS_END] and read_arguments(data, fields) and category == KERNEL:
        detail = np.uint8(COLLECTIVE)
    i = state[N_SLICES]
    if detail:
        d = state[N_DETAILS]
        details.slice[d], details.kind[d] = i, detail
        details.start[d], details.end[d] = fields[_ARGS], fields[_ARGS_END]
        state[N_DETAILS] = d + 1
    state[N_UNTIMED] += fields[_HAS_DUR] != _NUMBER
    if fields[_DUR] < 0:
        state[N_NEGATIVE] += 1
        fields[_DUR] = 0
    slices.begin[i], slices.duration[i] = fields[_TS], fields[_DUR]
    slices.name[i], slices.slot[i] = k, slot
    slices.correlation[i], slices.size[i] = fields[_CORRELATION], fields[_SIZE]
    state[N_SLICES] = i + 1
    return END


@kernel
def scan_events(data, n, fields, known, slices, details, counts, state):
    """Scan the events of a window.

    Parameters
    ----------
    data : (capacity,) uint8
        The text.
    n : int
        Number of bytes of the text.
    fields : (FIELDS,) int64
        Work space.
    counts : (MOST_CATEGORIES, 8) int64
        Number of events by category and phase; incremented.
    state : (SCAN_STATE,) int64
        `state[AT]` is where to begin; `state[N_STRANGE]` counts slices of kept categories without numbers for process
        and thread, or without a time.

    Returns
    -------
    int
        Status of the scan; `state[AT]` is the position of the first event not read, or after the list of events.
    """
    p = state[AT]
    while True:
        p = after_space(data, n, p)
        while p < n and data[p] == _COMMA:
            p = after_space(data, n, p + 1)
        state[AT] = p
        if p >= n:
            return INCOMPLETE
        if data[p] == _CLOSE_LIST:
            state[AT] = p + 1
            return END
        if data[p] != _OPEN:
            return BAD_EVENT
        if state[N_SLICES] >= slices.begin.size or state[N_DETAILS] >= details.kind.size:
            return BUFFERS_FULL
        after = scan_event(data, n, p, fields)
        if after < 0:
            return BAD_EVENT
        if after > n:
            return INCOMPLETE
        category, phase = category_of(data, fields, known.categories, state), phase_of(fields[_PH])
        is_kept = phase == _SLICE and 0 < category <= LAST_KEPT
        if is_kept and fields[_HAS_PID] == _NUMBER and fields[_HAS_TID] == _NUMBER and fields[_HAS_TS]:
            if fields[_HAS_TS] == -1 or fields[_HAS_DUR] == -1:
                return BAD_TIME
            if fields[_HAS_TS] == _HUGE or fields[_HAS_DUR] == _HUGE:
                return TOO_LARGE
            why = keep_slice(data, category, fields, known.names, known.slots, slices, details, state)
            if why != END:
                return why
        elif is_kept:
            state[N_STRANGE] += 1
        elif phase == _METADATA:
            d = state[N_DETAILS]
            details.slice[d], details.kind[d], details.start[d], details.end[d] = -1, METADATA, p, after
            state[N_DETAILS] = d + 1
        elif phase == _SLICE and category == CUDA_SYNC:
            d = state[N_DETAILS]
            details.slice[d], details.kind[d] = -1, SYNC
            details.start[d], details.end[d] = fields[_ARGS], fields[_ARGS_END]
            state[N_DETAILS] = d + 1
        counts[category, phase] += 1
        p = after


@kernel
def number_category(data, fields, categories, state):
    """Return the number of a category, assigning one if it is new."""
    return category_of(data, fields, categories, state)


@kernel
def find_end(data, n, p):
    """Return the position after white space and a JSON value; n + 1 if the text may end before the value does."""
    return after_value(data, n, after_space(data, n, p))


@kernel
def find_text(data, n, p):
    """Return the position of the first byte that is not white space."""
    return after_space(data, n, p)
