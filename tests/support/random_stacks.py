"""Random events of locations, for comparing kernels with their oracles."""

import numpy as np
from hypothesis import strategies as st
from oracles.events import Event

from tracecols.schema import EventKind as K

N_REGIONS = 3


TASKS = N_REGIONS


NAMES = [*(f"r{i}" for i in range(N_REGIONS)), "TASKS"]


def read_only(values, dtype):
    array = np.array(values, dtype)
    array.flags.writeable = False
    return array


ENTER, EXIT, SEND, METRIC, OFF, ON, FLUSH, SWITCH, COMPLETE, OTHER = range(10)


@st.composite
def locations(draw):
    """Draw the events of one location, valid or not: (kind, ticks since the previous event, region or task)."""
    return draw(
        st.lists(
            st.one_of(
                st.tuples(
                    st.sampled_from([ENTER, ENTER, EXIT, EXIT, SEND, METRIC, FLUSH, OFF, ON, OTHER]),
                    st.integers(0, 4),
                    st.integers(0, N_REGIONS - 1),
                ),
                st.tuples(st.sampled_from([SWITCH, COMPLETE]), st.integers(0, 4), st.integers(0, 2)),
            ),
            max_size=40,
        )
    )


KIND = {
    ENTER: K.ENTER, EXIT: K.EXIT, SEND: K.MPI_SEND, METRIC: K.METRIC, OFF: K.MEASUREMENT_ON_OFF, ON: K.MEASUREMENT_ON_OFF,
    FLUSH: K.BUFFER_FLUSH, SWITCH: K.THREAD_TASK_SWITCH, COMPLETE: K.THREAD_TASK_COMPLETE, OTHER: K.PARAMETER_INT,
}  # fmt: skip


ORACLE = {
    ENTER: "enter",
    EXIT: "exit",
    OFF: "enter",
    ON: "exit",
    FLUSH: "flush",
    SWITCH: "switch",
    COMPLETE: "complete",
}


FIRST_ROW = 1000


class OneLocation:
    """A store in memory that holds one location, and the events for the oracle.

    Its arrays have the types that analyses pass to kernels. With `read_only` as `array` they are not writable; kernels
    are compiled separately for such arrays.
    """

    def __init__(self, script, array=np.array):
        self.array = array
        self.tables, self.first_rows = ("metrics_0",), np.array([FIRST_ROW])
        self.columns = {"time": [], "kind": [], "region": []}
        self.events, stops, tasks = [], [], []
        now = 50
        # only the running task completes, and never the implicit one
        running = 0
        for what, ticks, number in script:
            now += ticks
            if what == COMPLETE:
                if not running:
                    continue
                number, running = running, 0
            elif what == SWITCH:
                running = number
            row = FIRST_ROW + len(self.events)
            region = number if what in (ENTER, EXIT, OFF, FLUSH) else -1
            e = Event(now, 0, 0, ORACLE.get(what, "other"), row, region=NAMES[region] if region >= 0 else "")
            if what == FLUSH:
                # some flushes end after the next event
                e.stop = now + 2 * ticks
                stops.append(e.stop)
            if what in (SWITCH, COMPLETE):
                e.task = (0, number)
                tasks.append((KIND[what], number))
            self.events.append(e)
            for name, value in (("time", e.time), ("kind", KIND[what]), ("region", region)):
                self.columns[name].append(value)
        self.columns = {
            "time": array(self.columns["time"], np.int64),
            "kind": array(self.columns["kind"], np.uint8),
            "region": array(self.columns["region"], np.int32),
        }
        self.sides = {
            "control": {"kind": np.full(len(stops), K.BUFFER_FLUSH, np.uint8), "stop_time": np.array(stops, np.int64)},
            "tasks": {
                "row": np.array(
                    [
                        r
                        for r, k in enumerate(self.columns["kind"])
                        if k in (K.THREAD_TASK_SWITCH, K.THREAD_TASK_COMPLETE)
                    ],
                    np.int64,
                ),
                "kind": np.array([k for k, _ in tasks], np.uint8),
                "creator": np.zeros(len(tasks), np.int32),
                "generation": np.array([t for _, t in tasks], np.int64),
                "task": np.full(len(tasks), -1, np.int64),
            },
        }

    def counts(self, table):
        return np.array([self.n_rows(table, 0)])

    def n_rows(self, table, location):
        of_kind = {"p2p": K.MPI_SEND, "metrics_0": K.METRIC}
        if table in of_kind:
            return int((self.columns["kind"] == of_kind[table]).sum())
        if table in self.sides:
            return self.sides[table]["kind"].size
        return self.columns["time"].size if table == "events" else 0

    def read(self, table, location, columns=None, start=0, stop=None, **_):
        if table == "events":
            return {k: v[start:stop] for k, v in self.columns.items()}
        return {c: self.sides[table][c] for c in columns}

    def read_together(self, table, locations, columns):
        return self.read(table, 0, columns), np.array([self.n_rows(table, 0)])
