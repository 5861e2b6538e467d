"""Scan the text of a Paraver trace: one pass over a block of lines finds all records and their values.

Events and states become *words*, int64, in the order of the text, and are then grouped by location:

* a state: begin, STATE, its number, its end
* events of one line: time, number of pairs, and type and value of each pair

Events that no analysis uses are left out here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.paraver.types import (
    FIRST_CALL,
    IGNORED,
    LAST_CALL,
    LATEST,
    LOCK,
    MAGIC,
    SKIPPED,
    WITH_REGIONS,
)
from tracecols.kernels.kernel import inner_part, kernel, part

# state of a scan: its position and its results
AT, N_RECORDS, N_WORDS, N_MESSAGES, N_NAMED, N_STRANGE, N_LINES, LAST, N_GLOBAL, SCAN_STATE = range(10)

# status of a scan
(END, BAD_RECORD, BAD_FIELD, TOO_LARGE, NO_APPLICATION, NO_THREAD, BAD_TIMES, ANOTHER_HEADER) = range(8)

STATE = -1
"""Stored in place of the number of pairs: the record is a state."""
STATE_WORDS = 4

OPEN = -1
"""End of a state that was open when the recording ended."""

CACHE = 1 << 12
"""Entries of the cache of noted values: a value that names a region is noted again only if it was evicted."""


class TypeTable(NamedTuple):
    """The types of events, found by their number."""

    slots: NDArray[np.int64]
    """(2**n,): hash table with linear probing: index of a type, -1 empty."""
    number: NDArray[np.int64]
    """(n_types,)"""
    action: NDArray[np.uint8]
    """(n_types,): action for the events of each type, see `types`."""
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    """`first` and `last`: (n_ranges,), ranges of declared types."""
    of_range: NDArray[np.uint8]
    """(n_ranges,): action for the events of each range."""


class Found(NamedTuple):
    """The results of scanning a block; the arrays are large enough for any text of its size."""

    words: NDArray[np.int64]
    """(capacity,)"""
    record: NDArray[np.int64]
    location: NDArray[np.int32]
    """`record` and `location`: (n_records + 1,) int64, int32, start of the words of each record, and its location."""
    messages: NDArray[np.int64]
    """(n_messages, MESSAGE_FIELDS): sender, its begin, receiver, begin and end there, size and tag."""
    named: NDArray[np.int64]
    """(capacity, 2): types and values that name regions; types that are not in the table, with value 0."""
    strange: NDArray[np.int64]
    """(capacity,): types that are unknown or skipped, event by event."""
    latest: NDArray[np.int64]
    """(n_locations,): latest time of a record of each location, -1 if there is none."""
    disordered: NDArray[np.uint8]
    """(n_locations,): whether a record of the location is earlier than the previous one."""
    earliest: NDArray[np.int64]
    """(n_locations,): time of the first record of each location, -1 if there is none."""
    n_words: NDArray[np.int64]
    """(n_locations,): number of words of each location."""
    cache: NDArray[np.int64]
    """(CACHE, 2): types and values noted last, -1 at first."""


SENDER, SENT_AT, RECEIVER, POSTED_AT, RECEIVED_AT, SIZE, TAG, MESSAGE_FIELDS = range(8)

_1, _10, _ZERO = np.uint64(1), np.uint64(10), np.uint64(48)
NEWLINE, RETURN, COLON, MINUS, HASH = np.uint8(10), np.uint8(13), np.uint8(58), np.uint8(45), np.uint8(35)
HEADER = np.frombuffer(MAGIC, np.uint8)
_TEN_POWER_19 = np.uint64(10**19)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)

NAMED = np.isin(np.arange(32), (*WITH_REGIONS, LOCK)).astype(np.uint8)
"""(32,): whether the values of events with an action name regions or locks."""


@part
def hashed(number, size):
    """Return the first slot to probe for a number; `size` is a power of two."""
    return np.int64((np.uint64(number) * _MULTIPLIER >> _SHIFT) & np.uint64(size - 1))


@part
def find_type(number, table):
    """Find the index of a type in the table; -1 if it is not known."""
    at = hashed(number, table.slots.size)
    while table.slots[at] >= 0 and table.number[table.slots[at]] != number:
        at = (at + 1) & (table.slots.size - 1)
    return table.slots[at]


@part
def note_value(number, value, state, found):
    """Note a value that names a region or a lock."""
    at, cache = hashed(np.int64(value) * 64 + number, CACHE), found.cache
    if cache[at, 0] != number or cache[at, 1] != np.int64(value):
        cache[at, 0], cache[at, 1] = number, np.int64(value)
        n = state[N_NAMED]
        found.named[n, 0], found.named[n, 1] = number, np.int64(value)
        state[N_NAMED] = n + 1


@part
def action_of(number, table, state, found):
    """Return the action for events of a type; a declared type that is not in the table is noted."""
    kind = find_type(number, table)
    if kind >= 0:
        return table.action[kind]
    for r in range(table.first.size):
        if table.first[r] <= number <= table.last[r]:
            note_value(number, np.uint64(0), state, found)
            return table.of_range[r]
    return np.uint8(SKIPPED)


@inner_part
def read_number(data, p):
    """Read digits as an unsigned number; return it and the position after, `p` itself if there are no digits.

    The text ends with a newline, which ends the digits. For a number of more than 64 bits, the position is `p`, too.
    """
    start = p
    value = np.uint64(0)
    digit = np.uint64(data[p]) - _ZERO
    while digit < _10:
        value = value * _10 + digit
        p += _1
        digit = np.uint64(data[p]) - _ZERO
    n = p - start
    if n > np.uint64(19) and (n > np.uint64(20) or data[start] != 49 or value < _TEN_POWER_19):
        return value, start
    return value, p


@inner_part
def read_field(data, p):
    """Read a number followed by a colon; return it, the position after the colon, and whether both were found.

    If not, the position is where reading stopped, which is never after the newline that ends the text.
    """
    value, q = read_number(data, p)
    good = q > p and data[q] == COLON
    return value, q + _1 if good else q, good


@inner_part
def at_line_end(data, p):
    """Return whether a line ends at a position, with a newline or with a carriage return before it."""
    return data[p] == NEWLINE or (data[p] == RETURN and data[p + _1] == NEWLINE)


@inner_part
def read_location(data, p, first):
    """Read application, task and thread; return the location, the position after, and END or the error."""
    application, p, good = read_field(data, p)
    task, p, good_task = read_field(data, p)
    thread, p, good_thread = read_field(data, p)
    if not (good and good_task and good_thread):
        return np.int64(-1), p, BAD_FIELD
    if application != _1:
        return np.int64(-1), p, NO_APPLICATION
    if task - _1 >= np.uint64(first.size - 1):
        return np.int64(-1), p, NO_THREAD
    t = np.int64(task)
    location = first[t - 1] + np.int64(thread) - 1
    if thread - _1 >= np.uint64(first[t] - first[t - 1]):
        return np.int64(-1), p, NO_THREAD
    return location, p, END


@part
def begin_record(location, time, state, found):
    """Note the start of a record of a location, and whether it is in order of time."""
    r = state[N_RECORDS]
    found.record[r] = state[N_WORDS]
    found.location[r] = location
    if found.earliest[location] < 0:
        found.earliest[location] = time
    elif time < found.latest[location]:
        found.disordered[location] = 1
    if time > found.latest[location]:
        found.latest[location] = time


@part
def end_record(location, n, state, found):
    """Complete a record of n words."""
    state[N_RECORDS] += 1
    state[N_WORDS] += n
    found.n_words[location] += n


@inner_part
def scan_state(data, p, location, state, found):
    """Read begin, end and number of a state."""
    begin, p, good = read_field(data, p)
    is_open = data[p] == MINUS
    if is_open:
        p += _1
    end, p, good_end = read_field(data, p)
    number, q = read_number(data, p)
    if not (good and good_end and q > p and at_line_end(data, q)):
        return q, BAD_FIELD
    if is_open and end != _1:
        return q, BAD_TIMES
    if begin > np.uint64(LATEST) or end > np.uint64(LATEST) or number > np.uint64(LATEST):
        return q, TOO_LARGE
    if not is_open and end < begin:
        return q, BAD_TIMES
    words, w = found.words, state[N_WORDS]
    begin_record(location, np.int64(begin), state, found)
    words[w], words[w + 1], words[w + 2] = np.int64(begin), STATE, np.int64(number)
    words[w + 3] = OPEN if is_open else np.int64(end)
    end_record(location, STATE_WORDS, state, found)
    if not is_open:
        state[LAST] = max(state[LAST], np.int64(end))
    return q, END


@inner_part
def scan_events(data, p, location, types, state, found):
    """Read time, types and values of the events of a line."""
    time, p, good = read_field(data, p)
    if not good:
        return p, BAD_FIELD
    if time > np.uint64(LATEST):
        return p, TOO_LARGE
    words, w = found.words, state[N_WORDS]
    begin_record(location, np.int64(time), state, found)
    n = np.int64(0)
    q = p
    while True:
        number, q = read_number(data, p)
        if q == p or data[q] != COLON or number > np.uint64(LATEST):
            return q, BAD_FIELD
        p = q + _1
        negative = data[p] == MINUS
        if negative:
            p += _1
        value, q = read_number(data, p)
        if q == p:
            return q, BAD_FIELD
        if negative:
            value = np.uint64(0) - value
        kind = np.int64(number)
        action = action_of(kind, types, state, found)
        if action == SKIPPED:
            found.strange[state[N_STRANGE]] = np.int64(number)
            state[N_STRANGE] += 1
        elif action != IGNORED:
            words[w + 2 + 2 * n], words[w + 3 + 2 * n] = kind, np.int64(value)
            n += 1
            if NAMED[action] and value != np.uint64(0):
                note_value(kind, value, state, found)
        if data[q] != COLON:
            break
        p = q + _1
    if not at_line_end(data, q):
        return q, BAD_FIELD
    state[LAST] = max(state[LAST], np.int64(time))
    if n:
        words[w], words[w + 1] = np.int64(time), n
        end_record(location, 2 + 2 * n, state, found)
    return q, END


@inner_part
def scan_message(data, p, sender, first, state, found):
    """Read the fields of a message after its sender."""
    begin, p, good = read_field(data, p)
    if not good:
        return p, BAD_FIELD
    end, p, good = read_field(data, p)
    _, q, good_cpu = read_field(data, p)
    if not (good and good_cpu):
        return p, BAD_FIELD
    receiver, p, why = read_location(data, q, first)
    if why != END:
        return p, why
    posted, p, good = read_field(data, p)
    received, q, good_end = read_field(data, p)
    size, p, good_size = read_field(data, q)
    negative = data[p] == MINUS
    if negative:
        p += _1
    tag, q = read_number(data, p)
    if not (good and good_end and good_size and q > p and at_line_end(data, q)):
        return q, BAD_FIELD
    largest = np.uint64(LATEST)
    if begin > largest or end > largest or posted > largest or received > largest or size > largest or tag > largest:
        return q, TOO_LARGE
    m, n = found.messages, state[N_MESSAGES]
    m[n, SENDER], m[n, SENT_AT], m[n, RECEIVER] = sender, np.int64(begin), receiver
    # a simulator (Dimemas) says when the message arrives, which may be before the call that receives it
    received = max(posted, received)
    m[n, POSTED_AT], m[n, RECEIVED_AT], m[n, SIZE] = np.int64(posted), np.int64(received), np.int64(size)
    m[n, TAG] = -np.int64(tag) if negative else np.int64(tag)
    state[N_MESSAGES] = n + 1
    state[LAST] = max(state[LAST], np.int64(received))
    return q, END


@part
def begins_header(data, p):
    """Return whether a line is the header of a trace."""
    k = 0
    while k < HEADER.size and data[p + np.uint64(k)] == HEADER[k]:
        k += 1
    return k == HEADER.size


@kernel
def scan_lines(data, first, types, state, found):
    """Scan lines; the text ends with a newline.

    Parameters
    ----------
    data : (n,) uint8
        The text.
    first : (n_tasks + 1,) int64
        Location of the first thread of each task.
    state : (SCAN_STATE,) int64
        Zeros at first, except `state[AT]`, where to begin.

    Returns
    -------
    int
        END, or the error in the line at byte `state[AT]`.
    """
    n = np.uint64(data.size)
    p = np.uint64(state[AT])
    why = END
    while p < n:
        state[AT] = np.int64(p)
        state[N_LINES] += 1
        code = data[p]
        is_global = code == 52 and data[p + _1] == COLON
        if begins_header(data, p):
            why = ANOTHER_HEADER
            break
        if code == HASH or is_global:
            state[N_GLOBAL] += is_global
            while data[p] != NEWLINE:
                p += _1
            p += _1
            continue
        if at_line_end(data, p):
            p += _1 if data[p] == NEWLINE else np.uint64(2)
            continue
        if code < 49 or code > 51 or data[p + _1] != COLON:
            why = BAD_RECORD
            break
        _, q, good = read_field(data, p + np.uint64(2))
        if not good:
            why = BAD_FIELD
            p = q
            break
        location, p, why = read_location(data, q, first)
        if why != END:
            break
        if code == 49:
            p, why = scan_state(data, p, location, state, found)
        elif code == 50:
            p, why = scan_events(data, p, location, types, state, found)
        else:
            p, why = scan_message(data, p, location, first, state, found)
        if why != END:
            break
        p += _1 if data[p] == NEWLINE else np.uint64(2)
    found.record[state[N_RECORDS]] = state[N_WORDS]
    if why == END:
        state[AT] = np.int64(p)
    return why


@kernel
def group_by_location(record, location, words, free, grouped):
    """Group the words of records by location.

    Parameters
    ----------
    record, location : (n_records + 1,) int64, (n_records,) int32
        Start of the words of each record, and its location.
    free : (n_locations,) int64
        Start of the words of each location; afterwards their end.
    grouped : (n_words,) int64
        Filled.
    """
    for r in range(location.size):
        to = free[location[r]]
        for w in range(record[r], record[r + 1]):
            grouped[to] = words[w]
            to += 1
        free[location[r]] = to


@kernel
def find_records(words, start, time):
    """Find start and time of the records of a location; return the number of records."""
    n, w = 0, 0
    while w < words.size:
        start[n], time[n] = w, words[w]
        w += STATE_WORDS if words[w + 1] == STATE else 2 + 2 * words[w + 1]
        n += 1
    return n


@kernel
def find_calls(words, time):
    """Find the times at which calls of MPI begin or end in records of a location; return the number of times."""
    n, w = 0, 0
    while w < words.size:
        if words[w + 1] == STATE:
            w += STATE_WORDS
            continue
        for k in range(words[w + 1]):
            if FIRST_CALL <= words[w + 2 + 2 * k] <= LAST_CALL:
                time[n] = words[w]
                n += 1
        w += 2 + 2 * words[w + 1]
    return n


@kernel
def put_in_order(words, start, order, ordered):
    """Copy records in another order; `start` has one more element than there are records."""
    to = 0
    for r in order:
        for w in range(start[r], start[r + 1]):
            ordered[to] = words[w]
            to += 1
