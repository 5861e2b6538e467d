"""Decode EPILOG records: one walk through a file finds every location's records, then each location is decoded by itself.

A merged trace holds the events of all locations in one sequence. `walk_records` goes through it twice: it first counts, then
notes where the records of each location stand. `decode_records` turns the records of one location into columns.
"""

from __future__ import annotations

import numpy as np

from tracecols.kernels.kernel import kernel
from tracecols.kernels.prefetch import prefetch

# state of the walk
(
    AT, N_RECORDS, N_LOST, N_TIED, FAULT, DETAIL, FIRST, LAST, SCALE, COINCIDENT, DISORDER, WALK_STATE,
) = range(12)  # fmt: skip

# why a walk or a decoding ended
(
    END, RUNS_OUT, BAD_LENGTH, NO_LOCATION, BAD_TIME, UNKNOWN_ID, NO_MEMBER, NO_RANK, BUFFERS_FULL,
) = range(9)  # fmt: skip

# state of the decoding of a location
RECORD, EVENTS, SIDES, EXTRAS, SITES, ATTRIBUTES, TIES, BASE, DEPTH, TIE, WHAT, WHICH, DECODE_STATE = range(13)

# meanings of fields, see records.py
PLAIN, REGION, SITE, COMM, WINDOW, PEER, GROUP, FLAG, LOCK_TYPE = range(9)
AHEAD = 2

ATTRIBUTE_UI1, ATTRIBUTE_UI4 = 60, 61
ENTER, EXIT, OMP_COLLEXIT = 101, 102, 110
REQUEST = 2
LAST_DEFINITION = 59
FIRST_EVENT = 100
UNDEFINED = 0xFFFFFFFF
KNOWN_ATTRIBUTES = 4
IMPOSSIBLE_TIME = 0x4270000000000000
"""The bits of 2**40 s, 35,000 years; those of infinity and of what is no number are larger."""
AHEAD_OF_USE = 24
"""Records to fetch ahead: those of one location are spread over a merged file, and waiting for memory dominates."""

# columns of the table of field meanings: how many fields, the rest of them
MOST_FIELDS = 4


@kernel
def load4(words, at, big):
    """Read four bytes as an unsigned integer; `words` has the number at every byte of the file."""
    w = np.uint32(words[np.uint64(at)])
    if big:
        b = np.uint32(8)
        w = np.uint32(
            w << np.uint32(24) | (w & np.uint32(0xFF00)) << b | (w >> b & np.uint32(0xFF00)) | w >> np.uint32(24)
        )
    return np.int64(w)


@kernel
def load8(words, at, big):
    """Read eight bytes."""
    a, b = load4(words, at, big), load4(words, at + 4, big)
    return a << 32 | b if big else b << 32 | a


@kernel
def load_time(words, at, big):
    """Read a double as its bits, which order like the numbers as long as those are not negative."""
    bits = load8(words, at, big)
    return np.int64(0) if bits == np.int64(-9223372036854775808) else bits


@kernel
def walk_records(
    data, words, big, length, n_rows, location_of, default_location, first_place, scales,
    state, bits_of, number, n_records, rows, n_lost, fault_at, latest, offsets, slots, tied_at, tied_location, tied_place, unknown,
):  # fmt: skip
    """Go through the records of a file, to count (`offsets` is empty) or to note where they are.

    Parameters
    ----------
    data, words : (n,) uint8, (n - 3,) uint32
        The file, by bytes and by numbers of four bytes that begin at each of them.
    big : bool
        Byte order.
    length : (256,) int64
        By record type: bytes of the body with a location; -1 for types that are not known.
    n_rows : (256,) int64
        By record type: events it becomes.
    location_of : (any,) int32
        Row by location identifier, -1 undefined.
    default_location : int
        Row for records without location; -1 none.
    first_place : int
        What numbers in `tied_place` begin with.
    scales : (n_scales,) float64
        When counting: ticks per second to try; `state[SCALE]` becomes the first that gives every time back exactly, or
        n_scales. When noting: the one to use.
    state : (WALK_STATE,) int64
        `state[AT]` is where to begin. Afterwards: where the walk ended and why, number of records and of tied ones, bits of
        the earliest and latest time, records whose time differs from the one before by less than a tick, and records earlier
        than the one before.
    bits_of, number : (1,) int64, float64
        The same eight bytes, to see bits as a number.
    n_records, rows, n_lost, fault_at : (n_locations,) int64
        Per location when counting: records and events before the first record with an impossible time, events from there on,
        and where that record stands; -1 if there is none. When noting, `fault_at` says where each location ends.
    latest : (n_locations,) int64
        Per location: bits of the latest time. Zeros before.
    offsets, slots : (n_records,), (n_locations,) int64
        When noting: where each record stands, behind the attributes before it; and each location's next free slot.
    tied_at, tied_location, tied_place : (n_tied,) int64
        When noting: records whose place among those of the same time is not that of their location. A record whose time is
        earlier than one of its location before counts as one of that time: it keeps its place in the file.
    unknown : (256,) int64
        Counts of record types that are not known.

    Returns
    -------
    int
        END or what is wrong.
    """
    n = data.size
    p = state[AT]
    noting = offsets.size > 0
    before, own_before = np.int64(-1), np.int64(-1)
    tick_before = -1.0
    location_before = np.int64(-1)
    group, group_size, disputed = p, np.int64(0), False
    total, n_tied, lost = np.int64(0), np.int64(0), np.int64(0)
    head = np.int64(-1)
    why = END
    while True:
        size, code = np.int64(0), np.uint8(0)
        bits, own, location = np.int64(-1), np.int64(-1), np.int64(-1)
        if p < n:
            if p + 2 > n or p + 2 + data[p] > n:
                why = RUNS_OUT
                break
            size, code = np.int64(data[p]), data[p + 1]
            if length[code] < 0:
                unknown[code] += 1
                p += 2 + size
                continue
            if code == ATTRIBUTE_UI1 or code == ATTRIBUTE_UI4:
                if size != length[code]:
                    why = BAD_LENGTH
                    state[DETAIL] = size
                    break
                if data[p + 2] == 0 or data[p + 2] > KNOWN_ATTRIBUTES:
                    unknown[code] += 1
                if head < 0:
                    head = p
                p += 2 + size
                continue
            if code <= LAST_DEFINITION:
                unknown[code] += 1
                p += 2 + size
                continue
            q = p + 2
            if size == length[code]:
                lid = load4(words, q, big)
                q += 4
                if lid >= location_of.size or location_of[lid] < 0:
                    why = NO_LOCATION
                    state[DETAIL] = lid
                    break
                location = np.int64(location_of[lid])
            elif size == length[code] - 4:
                location = np.int64(default_location)
                if location < 0:
                    why = NO_LOCATION
                    state[DETAIL] = UNDEFINED
                    break
            else:
                why = BAD_LENGTH
                state[DETAIL] = size
                break
            own = load_time(words, q, big)
            if fault_at[location] < 0 and (own < 0 or own >= IMPOSSIBLE_TIME):
                # the other locations go on
                fault_at[location] = p
            if fault_at[location] >= 0 and p >= fault_at[location]:
                if not noting:
                    n_lost[location] += n_rows[code]
                    lost += 1
                head = np.int64(-1)
                p += 2 + size
                continue
            bits = max(own, latest[location])
        if own != own_before and own >= 0 and not noting:
            bits_of[0] = own
            while (
                state[SCALE] < scales.size
                and np.rint(number[0] * scales[state[SCALE]]) / scales[state[SCALE]] != number[0]
            ):
                state[SCALE] += 1
            if own < own_before:
                state[DISORDER] += 1
            if total == 0 or own < state[FIRST]:
                state[FIRST] = own
            state[LAST] = max(state[LAST], own)
        if bits != before:
            # the records of one time are complete
            if disputed:
                if noting:
                    at, k = group, np.int64(0)
                    start = np.int64(-1)
                    while k < group_size:
                        c = data[at + 1]
                        if c == ATTRIBUTE_UI1 or c == ATTRIBUTE_UI4:
                            if start < 0:
                                start = at
                        elif c >= FIRST_EVENT and length[c] >= 0:
                            of = default_location
                            if data[at] == length[c]:
                                of = np.int64(location_of[load4(words, at + 2, big)])
                            if fault_at[of] < 0 or at < fault_at[of]:
                                tied_at[n_tied + k] = start if start >= 0 else at
                                tied_place[n_tied + k] = first_place + k
                                tied_location[n_tied + k] = of
                                k += 1
                            start = -1
                        at += 2 + np.int64(data[at])
                n_tied += group_size
            group, group_size, disputed = head if head >= 0 else p, np.int64(0), False
            if bits >= 0 and noting:
                bits_of[0] = bits
                tick = np.rint(number[0] * scales[0])
                if tick == tick_before:
                    state[COINCIDENT] += 1
                tick_before = tick
        elif location < location_before:
            disputed = True
        if p >= n:
            break
        before, own_before, location_before = bits, own, location
        group_size += 1
        total += 1
        latest[location] = bits
        if noting:
            offsets[slots[location]] = head if head >= 0 else p
            slots[location] += 1
        else:
            n_records[location] += 1
            rows[location] += n_rows[code]
        head = np.int64(-1)
        p += 2 + size
    state[AT] = p
    state[N_RECORDS] = total
    state[N_LOST] = lost
    state[N_TIED] = n_tied
    state[FAULT] = why
    return why


@kernel
def rank_in(communicator, process, member_start, members, ranks):
    """Find the rank of a process in a communicator; -1 if it is no member."""
    low, high = member_start[communicator], member_start[communicator + 1]
    end = high
    while low < high:
        middle = (low + high) >> 1
        if members[middle] < process:
            low = middle + 1
        else:
            high = middle
    return np.int64(ranks[low]) if low < end and members[low] == process else np.int64(-1)


@kernel
def decode_records(
    data, words, big, offsets, state, length, n_fields, meanings, places, kinds, companions, counters,
    peers_are_ranks, lut, lut_start, process_of, comm_of_window, member_start, members, ranks,
    callee, op_of_region, window_op_of_region, off_region, tracing_region, n_counters,
    time, kind, region, side_event, side_kind, side_values, extra, site_event, site,
    attribute_event, attribute, attribute_type, attribute_value,
    tied_record, tied_place, tie_event, tie_place, stack, v,
):  # fmt: skip
    """Decode records of one location into columns.

    Parameters
    ----------
    data, words, big
        The file and its byte order.
    offsets : (n,) int64
        Where the location's records stand, attributes included.
    state : (DECODE_STATE,) int64
        Carried from call to call; `state[RECORD]` is the record to go on with.
    length, n_fields, kinds, companions, counters : (256,) int64 or uint8
        By record type: see `walk_records`; number of fields; the event it becomes; 1 where an EXIT follows; where counter
        values stand, 0 where there are none.
    meanings, places : (256, MOST_FIELDS) uint8
        Meaning of each field, and which of the event's values it is.
    peers_are_ranks : bool
        Whether PEER fields are ranks already.
    lut, lut_start : (any,) int64
        Rows by identifier, for each meaning; -1 undefined.
    process_of : (n_locations,) int64
    comm_of_window, member_start, members, ranks : int64
        Communicators: of windows; processes in ascending order and the rank of each.
    callee : (n_sites,) int32
        Region each call site enters.
    op_of_region, window_op_of_region : (n_regions + 1,) int64
        Collective operation by region, the last for none.
    off_region, tracing_region : int
        What LOG_OFF and ENTER_TRACING enter.
    n_counters : int
        Counter values per record that has them.
    time, kind, region : (capacity,) int64, uint8, int32
        Events; times are the bits of doubles.
    side_event, side_kind, side_values : (capacity,), (capacity,), (capacity, 6)
        Attributes of events that have some: number of the event in its location, kind, values.
    extra : (capacity,) int64
        Counter values.
    site_event, site, attribute_* : (capacity,)
        Call sites of ENTERs, and other attributes.
    tied_record, tied_place : (n_tied,) int64
        Which of the location's records have a place of their own among those of the same time, and what it is.
    tie_event, tie_place : (capacity,) int64
        Events that such records become.
    stack : (capacity,) int32
        Regions entered; `state[DEPTH]` of them.
    v : (8,) int64
        The values of an event while its fields are read.

    Returns
    -------
    int
        END, BUFFERS_FULL, or what is wrong with record `state[RECORD]`.
    """
    why = END
    capacity = time.size - 3
    i = state[RECORD]
    e, m, x, s, a = state[EVENTS], state[SIDES], state[EXTRAS], state[SITES], state[ATTRIBUTES]
    depth = state[DEPTH]
    base = state[BASE]
    while i < offsets.size:
        if (
            e >= capacity
            or m + 3 > side_event.size
            or x + n_counters > extra.size
            or s >= site.size
            or depth >= stack.size
            or state[TIES] + 3 > tie_event.size
        ):
            why = BUFFERS_FULL
            break
        p = offsets[i]
        if i + AHEAD_OF_USE < offsets.size:
            prefetch(data, offsets[i + AHEAD_OF_USE])
        code = data[p + 1]
        if n_counters == 0 and (code == ENTER or code == EXIT or code == OMP_COLLEXIT):
            # most records are these
            q = p + 6 if data[p] == length[code] else p + 2
            time[e] = load_time(words, q, big)
            if code == ENTER:
                raw = load4(words, q + 8, big)
                entered = np.int64(-1)
                if raw < lut_start[REGION + 1] - lut_start[REGION]:
                    entered = lut[lut_start[REGION] + raw]
                if entered < 0:
                    why = UNKNOWN_ID
                    state[WHAT] = REGION
                    state[WHICH] = raw
                    break
                kind[e] = 12
                region[e] = entered
                stack[depth] = entered
                depth += 1
            else:
                kind[e] = 13
                region[e] = stack[depth - 1] if depth > 0 else np.int32(-1)
                if depth > 0:
                    depth -= 1
            e += 1
            if state[TIE] < tied_record.size and tied_record[state[TIE]] == i:
                tie_event[state[TIES]] = base + e - 1
                tie_place[state[TIES]] = tied_place[state[TIE]]
                state[TIES] += 1
                state[TIE] += 1
            i += 1
            continue
        request = np.int64(-1)
        a_before, e_before, m_before, x_before = a, e, m, x
        # what is not understood may stand between an attribute and its event
        while data[p + 1] < FIRST_EVENT or length[data[p + 1]] < 0:
            if data[p + 1] == ATTRIBUTE_UI1 or data[p + 1] == ATTRIBUTE_UI4:
                value = np.int64(data[p + 3]) if data[p + 1] == ATTRIBUTE_UI1 else load4(words, p + 3, big)
                if data[p + 2] == REQUEST:
                    request = value
                elif 0 < data[p + 2] <= KNOWN_ATTRIBUTES:
                    if a >= attribute.size:
                        why = BUFFERS_FULL
                        break
                    # the event they belong to is not known yet
                    attribute[a] = data[p + 2]
                    attribute_type[a] = data[p + 1]
                    attribute_value[a] = value
                    a += 1
            p += 2 + np.int64(data[p])
        if why != END:
            a = a_before
            break
        code = data[p + 1]
        q = p + 2
        if data[p] == length[code]:
            q += 4
        t = load_time(words, q, big)
        q += 8
        counted = n_counters > 0 and counters[code] != 0
        if counted:
            values_at = q
            if counters[code] == AHEAD:
                q += 8 * n_counters
            else:
                values_at = q + 4
            time[e] = t
            kind[e] = 31
            region[e] = -1
            side_event[m] = base + e
            side_kind[m] = 31
            side_values[m, 0] = 0
            side_values[m, 1] = n_counters
            side_values[m, 2] = x
            for k in range(n_counters):
                extra[x + k] = load8(words, values_at + 8 * k, big)
            x += n_counters
            m += 1
            e += 1
        n = n_fields[code]
        comm, absent = np.int64(-1), np.int64(-1)
        for k in range(6):
            v[k] = -1
        for k in range(n):
            meaning = meanings[code, k]
            place = places[code, k]
            if meaning == FLAG:
                v[place] = data[q]
                q += 1
                continue
            if meaning == LOCK_TYPE:
                # here 0 is shared, in the store 0 is exclusive
                v[place] = 1 - min(np.int64(data[q]), 1)
                q += 1
                continue
            raw = load4(words, q, big)
            q += 4
            if raw == UNDEFINED and meaning != PLAIN:
                if meaning == REGION or meaning == SITE:
                    why = UNKNOWN_ID
                elif meaning == COMM or meaning == WINDOW:
                    absent = np.int64(meaning)
            elif meaning == PLAIN or (meaning == PEER and peers_are_ranks):
                v[place] = raw
            else:
                row = np.int64(-1)
                if raw < lut_start[meaning + 1] - lut_start[meaning]:
                    row = lut[lut_start[meaning] + raw]
                if row < 0:
                    why = UNKNOWN_ID
                v[place] = row
                if meaning == COMM:
                    comm = row
                elif meaning == WINDOW and row >= 0:
                    comm = comm_of_window[row]
                    if comm < 0:
                        absent = np.int64(COMM)
            if why == UNKNOWN_ID:
                state[WHAT] = meaning
                state[WHICH] = raw
                break
        if why == END:
            for k in range(n):
                place = places[code, k]
                if meanings[code, k] == PEER and v[place] >= 0:
                    if comm < 0 and absent < 0:
                        # SHMEM knows processes only
                        if not peers_are_ranks:
                            v[place] = process_of[v[place]]
                        continue
                    if comm < 0:
                        # a partner in no communicator
                        why = UNKNOWN_ID
                        state[WHAT] = absent
                        state[WHICH] = UNDEFINED
                        break
                    if peers_are_ranks:
                        # SELF lists no members and has one
                        if v[place] >= max(member_start[comm + 1] - member_start[comm], 1):
                            why = NO_RANK
                            state[WHICH] = v[place]
                            break
                    else:
                        rank = rank_in(comm, process_of[v[place]], member_start, members, ranks)
                        if rank < 0:
                            why = NO_MEMBER
                            state[WHICH] = v[place]
                            break
                        v[place] = rank
        if why != END:
            # nothing of this record is kept
            a, e, m, x = a_before, e_before, m_before, x_before
            break
        main = kinds[code]
        top = np.int64(stack[depth - 1]) if depth > 0 else np.int64(-1)
        time[e] = t
        kind[e] = main
        region[e] = -1
        a_event = base + e
        if main == 12:
            if code == 203:
                entered = np.int64(tracing_region)
            elif code == 111:
                entered = np.int64(callee[v[0]])
                site_event[s] = base + e
                site[s] = v[0]
                s += 1
            else:
                entered = v[0]
            region[e] = entered
            stack[depth] = entered
            depth += 1
        elif main == 13:
            region[e] = top
            if depth > 0:
                depth -= 1
        else:
            if main == 14:
                v[4] = request
                if request >= 0:
                    main = np.uint8(15)
            elif main == 18:
                v[3] = -1
                v[4] = request
                if request >= 0:
                    main = np.uint8(19)
            elif main == 23:
                v[4] = op_of_region[top]
            elif main == 38:
                v[1] = window_op_of_region[top]
            elif main == 11:
                if code == 201:
                    region[e] = off_region
                    stack[depth] = off_region
                    depth += 1
                    v[0] = 2
                else:
                    if depth > 0:
                        depth -= 1
                    v[0] = 1
            kind[e] = main
            side_event[m] = base + e
            side_kind[m] = main
            for k in range(6):
                side_values[m, k] = v[k]
            m += 1
        e += 1
        if companions[code]:
            time[e] = t
            kind[e] = 13
            region[e] = top
            if depth > 0:
                depth -= 1
            e += 1
        for k in range(a_before, a):
            attribute_event[k] = a_event
        if state[TIE] < tied_record.size and tied_record[state[TIE]] == i:
            for k in range(e_before, e):
                tie_event[state[TIES]] = base + k
                tie_place[state[TIES]] = tied_place[state[TIE]]
                state[TIES] += 1
            state[TIE] += 1
        i += 1
    state[RECORD] = i
    state[EVENTS], state[SIDES], state[EXTRAS], state[SITES], state[ATTRIBUTES] = e, m, x, s, a
    state[DEPTH] = depth
    return why
