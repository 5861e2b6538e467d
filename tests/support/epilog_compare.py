"""Compare a converted EPILOG recording with the result of its oracle."""

import numpy as np
import pytest

from support.epilog_expected import expected
from tracecols.schema import KINDS

FAMILY = {k: k.family for k in KINDS}


def sides_by_row(trace):
    found = {}
    for name in trace.store.tables:
        if name in ("events", "metrics_0", "ties", "enter_sites", "attributes"):
            continue
        table = trace.table(name)
        for row in table.to_dict("records"):
            found[row.pop("row")] = row
    return found


def compare(recording, trace, *, tolerance=0.0, positions=True):
    """Compare a store with the result of the plain reader; times may differ by a tolerance in seconds."""
    wanted = expected(recording)
    regions, locations = trace.regions, trace.locations
    sides = sides_by_row(trace)
    processes = trace.processes["id"].to_numpy()
    members = [[processes[locations["process"][m]] for m in c] for c in trace.communicators["members"]]
    groups = [[processes[locations["process"][m]] for m in c] for c in trace.definition("groups")["members"]]
    windows = trace.definition("windows")
    sites = {}
    if "enter_sites" in trace.store.tables:
        ids = trace.definition("call_sites")["id"]
        sites = {r.row: ids[r.call_site] for r in trace.table("enter_sites").itertuples()}
    metrics = {}
    if "metrics_0" in trace.store.tables:
        metrics = {row: tuple(values) for row, _, *values in trace.table("metrics_0").itertuples(index=False)}
    everything = trace.read_events(columns=["time", "kind", "region", "location", "pos"])
    assert sorted(wanted) == sorted(locations["id"])
    resolution = trace.manifest["clock"]["resolution"]
    names = [*regions["name"], ""]
    communicator_of = windows["communicator"].tolist()
    by_location = dict(list(everything.groupby("location")))
    for location, lid in enumerate(locations["id"]):
        events = by_location.get(location, everything[:0])
        should = wanted[lid]
        assert events["kind"].tolist() == [e.kind for e in should]
        assert [names[r] for r in events["region"].tolist()] == [e.region for e in should]
        own = recording.locations[lid].process
        times = events["time"].to_numpy() / resolution
        # the division of ticks rounds to a double again
        assert times == pytest.approx([e.time for e in should], rel=4e-16, abs=max(tolerance, 1 / resolution))
        if not tolerance:
            # ticks are in the same order as the doubles
            assert (np.diff(events["time"]) > 0).tolist() == (np.diff([e.time for e in should]) > 0).tolist()
        for row, e in zip(events.index, should, strict=True):
            assert sites.get(row, -1) == e.call_site
            if e.metrics:
                assert metrics[row] == e.metrics
            family = FAMILY[e.kind]
            if not e.side:
                assert row not in sides or family in ("threads",)
                continue
            got = dict(sides[row])
            assert got.pop("kind") == e.kind
            # a merged trace has neither the order of ranks nor a SELF communicator
            on = got.get("communicator", -1)
            if "window" in got and got["window"] >= 0:
                on = communicator_of[got["window"]]
                got["window"] = windows["id"][got["window"]]
            listed = (members[on] or [own]) if on >= 0 else processes
            for column in ("peer", "root", "remote"):
                if got.get(column, -1) >= 0:
                    got[column] = listed[got[column]]
            wanted_side = dict(e.side)
            for column, known in (("communicator", members), ("group", groups)):
                if got.get(column, -1) >= 0:
                    got[column] = sorted(known[got[column]] or [own])
                    wanted_side[column] = sorted(recording.comms[wanted_side[column]])
            got, wanted_side = ({k: v for k, v in d.items() if not np.array_equal(v, -1)} for d in (got, wanted_side))
            assert got == wanted_side, (row, e)
    if positions:
        # the order across locations is the order of the file
        order = everything.sort_values("pos", kind="stable")
        by_file = sorted((e.position, number, lid) for lid, events in wanted.items() for number, e in enumerate(events))
        ids = locations["id"].to_numpy()
        assert ids[order["location"]].tolist() == [lid for _, _, lid in by_file]
