"""Compare every column of every table of a store with the archive as read by the format's library."""

from __future__ import annotations

from typing import Any

import numpy as np
from oracles.flushes import in_order_of_the_program

from support.otf2_library import Event, Library
from tracecols.converters.otf2.records import EVENT_RECORDS, VALUE_MAPS
from tracecols.schema import KINDS, SIDE_TABLES, EventKind, enums
from tracecols.store import Store

RECORD = {r.code: r for r in EVENT_RECORDS}
FAMILY = {k: k.family for k in KINDS}

TABLE_OF_MAP = {
    "STRING": "strings", "ATTRIBUTE": "attribute_definitions", "LOCATION": "locations", "REGION": "regions",
    "GROUP": "groups", "METRIC": "metric_sources", "COMM": "communicators", "PARAMETER": "parameter_definitions",
    "RMA_WIN": "windows", "SCL": "source_code_locations", "CALLING_CONTEXT": "calling_contexts",
    "INTERRUPT_GENERATOR": "interrupt_generators", "IO_FILE": "io_files", "IO_HANDLE": "io_handles",
    "LOCATION_GROUP": "processes",
}  # fmt: skip

NULLS = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)


def rows_by_id(store: Store) -> dict[str, dict[int, int]]:
    """Return the rows of the definition tables by identifier, for every kind of identifier; UNDEFINED is -1."""
    result = {}
    for kind, table in TABLE_OF_MAP.items():
        ids = store.definition(table)["id"].to_pylist()
        # artificial regions have the identifier -1 and nothing refers to them; locations of 2**63 and more are negative
        known = {number % (1 << 64): row for row, number in enumerate(ids) if number != -1}
        result[kind] = known | dict.fromkeys(NULLS, -1)
    return result


def table(store: Store, name: str) -> dict[str, list[Any]]:
    """Return a definition table as lists."""
    return store.definition(name).to_pydict()


# -- events ------------------------------------------------------------------------------------------------------------


def translate(values: list[int], of: str, kind: str, rows: dict[str, dict[int, int]]) -> np.ndarray:
    """Return the expected column of a field: rows of a table, or its bits; null for UNDEFINED."""
    if kind:
        known = rows[kind]
        return np.array([known[v] for v in values], np.int64)
    column = np.array(values, np.int64 if of == "s64" else np.uint64).view(np.int64)
    return np.where(column == 0xFFFFFFFF, -1, column) if of == "c32" else column


def check_events(store: Store, library: Library) -> int:
    """Compare the events of all locations; return their number."""
    rows = rows_by_id(store)
    locations = table(store, "locations")
    total = 0
    for location, number in enumerate(locations["id"]):
        events = in_order_of_the_program(library.events(number % (1 << 64)))
        assert locations["n_events"][location] == len(events) == store.n_rows("events", location)
        assert locations["first_row"][location] == total
        try:
            check_location(store, location, total, events, rows, library)
        except AssertionError as error:
            raise AssertionError(f"location {number}: {error}") from error
        total += len(events)
    assert store.manifest["n_events"] == total
    return total


def check_location(
    store: Store, location: int, first: int, events: list[Event], rows: dict[str, dict[int, int]], library: Library
) -> None:
    """Compare all tables of one location."""
    found = store.read("events", location)
    kind = np.array([e[1] for e in events], np.uint8)
    same(found["time"], np.array([e[0] for e in events], np.uint64).view(np.int64), "time")
    same(found["kind"], kind, "kind")
    same(found["region"], expected_regions(store, events, kind, rows, library), "region")

    fields: dict[int, dict[str, np.ndarray]] = {}
    at = {code: np.flatnonzero(kind == code) for code in np.unique(kind).tolist()}
    for code, where in at.items():
        values = list(zip(*(events[i][2] for i in where.tolist()), strict=True))
        fields[code] = {
            f.name: translate(list(v), f.type, f.map, rows) for f, v in zip(RECORD[code].fields, values, strict=True)
        }
    for name, declared in SIDE_TABLES.items():
        codes = [code for code in at if FAMILY[code] == name]
        if name in ("attributes", "program_arguments"):
            continue
        found = store.read(name, location)
        where = np.concatenate([np.zeros(0, np.int64), *(at[c] for c in codes)])
        order = np.argsort(where)
        same(found["row"], where[order] + first, f"{name}.row")
        for column in declared.columns[1:]:
            if column.name == "kind":
                expected = kind[where[order]]
            else:
                null = [np.full(at[c].size, -1) for c in codes]
                parts = [fields[c].get(column.name, n) for c, n in zip(codes, null, strict=True)]
                expected = np.concatenate([np.zeros(0, np.int64), *parts])[order].astype(column.dtype)
                if (name, column.name) in RANKS:
                    by = found[RANKS[name, column.name]].tolist()
                    expected = in_communicator(store, library, by, expected, name == "rma")
            same(found[column.name], expected, f"{name}.{column.name}")

    arguments = [
        (first + i, k, rows["STRING"][v])
        for i in at.get(EventKind.PROGRAM_BEGIN, np.zeros(0, np.int64)).tolist()
        for k, (_, v) in enumerate(events[i][4])
    ]
    same_rows(store.read("program_arguments", location), arguments, "program_arguments")
    attributes = [
        (first + i, rows["ATTRIBUTE"][a], of, value_of(of, bits, rows))
        for i, event in enumerate(events)
        if event[3]
        for a, of, bits in event[3]
    ]
    same_rows(store.read("attributes", location), attributes, "attributes")
    check_metrics(store, location, first, events, at.get(EventKind.METRIC), rows)


RANKS = {
    ("p2p", "peer"): "communicator", ("collectives", "root"): "communicator", ("tasks", "creator"): "team",
    ("rma", "remote"): "window", ("rma", "root"): "window",
}  # fmt: skip
"""Columns that hold ranks, and the column that determines their communicator."""


def in_communicator(
    store: Store, library: Library, by: list[int], ranks: np.ndarray, through_window: bool
) -> np.ndarray:
    """Convert global ranks to ranks in their communicators, one by one: if the group has the flag GLOBAL_MEMBERS, ranks
    are positions in the COMM_LOCATIONS of the paradigm."""
    d = library.definitions
    groups = {x["self"]: x for x in d["Group"]}
    comms = {x["self"]: (groups[x["group"]],) for x in d["Comm"] if x["group"] in groups}
    comms |= {x["self"]: (groups[x["groupA"]], groups[x["groupB"]]) for x in d["InterComm"]}
    windows = {x["self"]: x["comm"] for x in d["RmaWin"]}
    ids = table(store, "windows" if through_window else "communicators")["id"]
    result = []
    for row, rank in zip(by, ranks.tolist(), strict=True):
        number = ids[row] if row >= 0 else None
        of = comms.get(windows[number] if through_window and number is not None else number, ())
        if rank >= 0 and of and of[0]["groupFlags"] & 1:
            self_like = enums.GROUP_TYPES[of[0]["groupType"]] == "comm_self"
            listed = [
                x["members"]
                for x in d["Group"]
                if enums.GROUP_TYPES[x["groupType"]] == "comm_locations" and x["paradigm"] == of[0]["paradigm"]
            ][-1]
            members = [g["members"] for g in of if rank in g["members"]]
            rank = -1 if rank >= len(listed) else 0 if self_like else members[0].index(rank) if members else -1
        result.append(rank)
    return np.array(result, ranks.dtype)


def value_of(of: int, bits: int, rows: dict[str, dict[int, int]]) -> int:
    """Return the expected stored form of an attribute value."""
    if of in VALUE_MAPS:
        return rows[VALUE_MAPS[of]][bits if of == 13 else bits & 0xFFFFFFFF]
    width = {1: 8, 5: 8, 2: 16, 6: 16, 3: 32, 7: 32, 9: 32}.get(of, 64)
    value = bits & ((1 << width) - 1)
    signed = of in (5, 6, 7, 8, 10, 4)
    return value - (1 << width) if signed and value >> (width - 1) else value


def check_metrics(
    store: Store,
    location: int,
    first: int,
    events: list[Event],
    where: np.ndarray | None,
    rows: dict[str, dict[int, int]],
) -> None:
    """Compare the tables of all metric classes."""
    class_of = table(store, "metric_sources")["metric_class"]
    by_class: dict[int, list[int]] = {}
    for i in [] if where is None else where.tolist():
        by_class.setdefault(class_of[rows["METRIC"][events[i][2][0]]], []).append(i)
    value_types = table(store, "metric_members")["value_type"]
    for number, members in enumerate(table(store, "metric_classes")["members"]):
        name, mine = f"metrics_{number}", by_class.get(number, [])
        if not mine:
            assert store.n_rows(name, location) == 0
            continue
        found = store.read(name, location)
        same(found["row"], np.array(mine) + first, f"{name}.row")
        same(found["source"], np.array([rows["METRIC"][events[i][2][0]] for i in mine], np.int32), f"{name}.source")
        for k, member in enumerate(members):
            bits = np.array([events[i][4][k][1] for i in mine], np.uint64)
            same(found[f"value_{k}"].view(np.uint64), bits, f"{name}.value_{k}")
            assert str(found[f"value_{k}"].dtype) == value_types[member]


WITH_REGIONS = (
    EventKind.CALLING_CONTEXT_ENTER,
    EventKind.CALLING_CONTEXT_EXIT,
    EventKind.MEASUREMENT_ON_OFF,
    EventKind.BUFFER_FLUSH,
    EventKind.PROGRAM_BEGIN,
)
"""Kinds of events that may have a region, besides ENTER and EXIT."""


def expected_regions(
    store: Store, events: list[Event], kind: np.ndarray, rows: dict[str, dict[int, int]], library: Library
) -> np.ndarray:
    """Return the expected regions of events: the regions that they name, or artificial ones."""
    regions = table(store, "regions")
    named = dict(zip(regions["name"], range(len(regions["name"])), strict=True))
    artificial = {n: i for n, i in named.items() if regions["role"][i] == "artificial"}
    texts = {d["self"]: d["string"] for d in library.definitions["String"]}
    contexts = {d["self"]: d["region"] for d in library.definitions["CallingContext"]}
    result = np.full(kind.size, -1, np.int32)
    enters = np.flatnonzero((kind == EventKind.ENTER) | (kind == EventKind.EXIT))
    known = rows["REGION"]
    result[enters] = [known[events[i][2][0]] for i in enters.tolist()]
    for i in np.flatnonzero(np.isin(kind, WITH_REGIONS)).tolist():
        values = events[i][2]
        match kind[i]:
            case EventKind.CALLING_CONTEXT_ENTER | EventKind.CALLING_CONTEXT_EXIT:
                of = known[contexts.get(values[0], 0xFFFFFFFF)]
                result[i] = of if of >= 0 else artificial["UNKNOWN"]
            case EventKind.MEASUREMENT_ON_OFF if values[0] == 2:
                result[i] = artificial["MEASUREMENT OFF"]
            case EventKind.BUFFER_FLUSH:
                result[i] = artificial["TRACE BUFFER FLUSH"]
            case EventKind.PROGRAM_BEGIN:
                programs = [n for n in artificial if n not in ("MEASUREMENT OFF", "TRACE BUFFER FLUSH", "UNKNOWN")]
                text = texts.get(values[0])
                by_canonical = {regions["canonical_name"][artificial[n]]: artificial[n] for n in programs}
                result[i] = artificial.get(text, by_canonical.get(text, artificial[programs[0]]))
    return result


def same(found: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Fail at the first element that differs."""
    assert found.dtype == expected.dtype, f"{what}: {found.dtype} is not {expected.dtype}"
    assert found.shape == expected.shape, f"{what}: {found.shape} is not {expected.shape}"
    unequal = np.flatnonzero(found != expected)
    assert not unequal.size, (
        f"{what}[{unequal[0]}] is {found[unequal[0]]}, not {expected[unequal[0]]}; {unequal.size} of {found.size} differ"
    )


def same_rows(found: dict[str, np.ndarray], expected: list[tuple[int, ...]], what: str) -> None:
    """Compare a table with rows as tuples."""
    columns = zip(*expected, strict=True) if expected else [()] * len(found)
    for (name, column), values in zip(found.items(), columns, strict=True):
        same(column, np.array(values, column.dtype), f"{what}.{name}")


# -- definitions -------------------------------------------------------------------------------------------------------


DEFINED = {
    "strings": "String id=self string=string",
    "attribute_definitions": "Attribute id=self name=name/text description=description/text type=type/VALUE_TYPES",
    "parameter_definitions": "Parameter id=self name=name/text type=parameterType/PARAMETER_TYPES",
    "windows": "RmaWin id=self name=name/text communicator=comm/COMM flags=flags",
    "source_code_locations": "SourceCodeLocation id=self file=file/text line=lineNumber",
    "calling_contexts": "CallingContext id=self region=region/REGION source_code_location=sourceCodeLocation/SCL "
    "parent=parent/CALLING_CONTEXT",
    "interrupt_generators": "InterruptGenerator id=self name=name/text mode=interruptGeneratorMode/INTERRUPT_MODES "
    "base=base exponent=exponent period=period",
    "io_handles": "IoHandle id=self name=name/text file=file/IO_FILE paradigm=ioParadigm flags=ioHandleFlags "
    "communicator=comm/COMM parent=parent/IO_HANDLE",
    "metric_members": "MetricMember id=self name=name/text description=description/text unit=unit/text "
    "type=metricType/METRIC_TYPES mode=metricMode/METRIC_MODES base=base exponent=exponent",
    "metric_classes": "MetricClass id=self occurrence=metricOccurrence/METRIC_OCCURRENCES "
    "recorder_kind=recorderKind/RECORDER_KINDS",
    "system_tree_nodes": "SystemTreeNode id=self name=name/text class_name=className/text",
}
"""Record of each table, and fields of its columns: unchanged, texts, references, or enumerations."""


def check_definitions(store: Store, library: Library) -> None:
    """Compare all definition tables."""
    d = library.definitions
    text = {x["self"]: x["string"] for x in d["String"]} | {0xFFFFFFFF: ""}
    rows = rows_by_id(store)

    def column(record: str, field: str) -> list[Any]:
        field, _, of = field.partition("/")
        values = [x[field] for x in d[record]]
        if of in rows or of == "text":
            known = text if of == "text" else rows[of]
            return [known[v] for v in values]
        return [enums.name_of(getattr(enums, of), v) for v in values] if of else values

    (clock,) = d["ClockProperties"]
    realtime = -1 if clock["realtimeTimestamp"] in NULLS else clock["realtimeTimestamp"]
    known = {"resolution": clock["timerResolution"], "origin": clock["globalOffset"], "length": clock["traceLength"]}
    assert store.manifest["clock"] == {**known, "realtime": realtime}
    node_row = {x["self"]: i for i, x in enumerate(d["SystemTreeNode"])} | {0xFFFFFFFF: -1}
    members = {x["self"]: i for i, x in enumerate(d["MetricMember"])}
    types = {4: "uint64", 8: "int64", 10: "float64"}
    more = {
        "system_tree_nodes": {"parent": [node_row[p] for p in column("SystemTreeNode", "parent")]},
        "metric_members": {"value_type": [types[v] for v in column("MetricMember", "valueType")]},
        "metric_classes": {"members": [[members[m] for m in v] for v in column("MetricClass", "metricMembers")]},
    }
    for name, fields in DEFINED.items():
        record, *of = fields.split()
        check(store, name, **{c: column(record, f) for c, f in (x.split("=") for x in of)}, **more.get(name, {}))
    check_processes(store, library, text, rows, node_row)
    check_regions(store, library, text)
    check_properties(store, library, text, rows, node_row)
    check_groups(store, library, text, rows)
    check_topologies(store, library, text, rows)
    classes = {x["self"]: i for i, x in enumerate(d["MetricClass"])}
    n = len(classes)
    check(
        store,
        "metric_sources",
        id=column("MetricClass", "self") + column("MetricInstance", "self"),
        metric_class=[*range(n), *(classes[c] for c in column("MetricInstance", "metricClass"))],
        recorder=[-1] * n + column("MetricInstance", "recorder/LOCATION"),
        scope=["location"] * n + column("MetricInstance", "metricScope/METRIC_SCOPES"),
        scope_id=[-1] * n + column("MetricInstance", "scope"),
    )
    check(
        store,
        "io_files",
        id=column("IoRegularFile", "self") + column("IoDirectory", "self"),
        name=column("IoRegularFile", "name/text") + column("IoDirectory", "name/text"),
        type=["file"] * len(d["IoRegularFile"]) + ["directory"] * len(d["IoDirectory"]),
        scope=[node_row[x["scope"]] for x in d["IoRegularFile"] + d["IoDirectory"]],
    )


def check_properties(
    store: Store, library: Library, text: dict[int, str], rows: dict[str, dict[int, int]], node_row: dict[int, int]
) -> None:
    """Compare the properties of nodes, processes and locations."""
    fields = ["none", *(f"{sign}int{n}" for sign in ("u", "") for n in (8, 16, 32, 64)), "float32", "float64"]
    expected = []
    for record, owner, name, row in (
        ("SystemTreeNodeProperty", "systemTreeNode", "system_tree_nodes", node_row),
        ("LocationGroupProperty", "locationGroup", "processes", rows["LOCATION_GROUP"]),
        ("LocationProperty", "location", "locations", rows["LOCATION"]),
    ):
        for x in library.definitions[record]:
            if x["type"] == 11:
                value = text[x["value"].stringRef]
            else:
                number = getattr(x["value"], fields[x["type"]])
                value = f"{number:g}" if isinstance(number, float) else str(number)
            expected.append((name, row[x[owner]], text[x["name"]], value))
    assert list(zip(*table(store, "properties").values(), strict=True)) == expected


def check(store: Store, name: str, /, **expected: list[Any]) -> None:
    """Compare the given columns of a definition table; all must be given."""
    found = table(store, name)
    assert set(found) == set(expected), name
    for column, values in expected.items():
        assert found[column] == values, f"{name}.{column}"


def check_processes(
    store: Store, library: Library, text: dict[int, str], rows: dict[str, dict[int, int]], node_row: dict[int, int]
) -> None:
    """Compare processes and locations, which are ordered by MPI rank."""
    groups = {x["self"]: x for x in library.definitions["LocationGroup"]}
    locations = {x["self"]: x for x in library.definitions["Location"]}
    found = table(store, "processes")
    assert sorted(found["id"]) == sorted(groups)
    mine = [groups[i] for i in found["id"]]
    assert found["name"] == [text[x["name"]] for x in mine]
    assert found["type"] == [enums.LOCATION_GROUP_TYPES[x["locationGroupType"]] for x in mine]
    assert found["node"] == [node_row[x["systemTreeParent"]] for x in mine]
    assert found["creator"] == [rows["LOCATION_GROUP"][x["creatingLocationGroup"]] for x in mine]
    listed = [
        x["members"]
        for x in library.definitions["Group"]
        if enums.GROUP_TYPES[x["groupType"]] == "comm_locations" and enums.PARADIGMS[x["paradigm"]] == "mpi"
    ]
    if listed:
        order = list(dict.fromkeys(locations[m]["locationGroup"] for m in listed[0]))
        assert found["id"][: len(order)] == order
    assert found["rank"] == list(range(len(found["id"])))
    found = table(store, "locations")
    process = {number: row for row, number in enumerate(table(store, "processes")["id"])}
    order = sorted(locations, key=lambda i: (process[locations[i]["locationGroup"]], i))
    assert [i % (1 << 64) for i in found["id"]] == order
    mine = [locations[i] for i in order]
    assert found["name"] == [text[x["name"]] for x in mine]
    assert found["type"] == [enums.LOCATION_TYPES[x["locationType"]] for x in mine]
    assert found["process"] == [process[x["locationGroup"]] for x in mine]
    assert found["n_events"] == [x["numberOfEvents"] for x in mine]
    for p in set(found["process"]):
        threads = [t for t, of in zip(found["thread"], found["process"], strict=True) if of == p]
        assert threads == list(range(len(threads)))


def check_regions(store: Store, library: Library, text: dict[int, str]) -> None:
    """Compare regions; artificial ones may follow those of the archive."""
    d = library.definitions["Region"]
    found = {name: values[: len(d)] for name, values in table(store, "regions").items()}
    assert found["id"] == [x["self"] for x in d]
    for column, field in (("name", "name"), ("description", "description"), ("file", "sourceFile")):
        assert found[column] == [text[x[field]] for x in d], column
    assert found["canonical_name"] == [text[x["canonicalName"]] or text[x["name"]] for x in d]
    assert found["role"] == [enums.name_of(enums.REGION_ROLES, x["regionRole"]) for x in d]
    assert found["paradigm"] == [enums.name_of(enums.PARADIGMS, x["paradigm"]) for x in d]
    assert found["flags"] == [x["regionFlags"] for x in d]
    for column, field in (("begin_line", "beginLineNumber"), ("end_line", "endLineNumber")):
        assert found[column] == [0 if x[field] == 0xFFFFFFFF else x[field] for x in d], column
    rest = {name: values[len(d) :] for name, values in table(store, "regions").items()}
    assert set(rest["id"]) <= {-1}
    assert set(rest["name"]) <= {"MEASUREMENT OFF", "TRACE BUFFER FLUSH", "PROGRAM", "UNKNOWN"}


def check_groups(store: Store, library: Library, text: dict[int, str], rows: dict[str, dict[int, int]]) -> None:
    """Compare groups and communicators, members in rank order as rows of locations."""
    groups = library.definitions["Group"]
    kinds = [enums.GROUP_TYPES[x["groupType"]] for x in groups]
    listed = {x["paradigm"]: x["members"] for x, k in zip(groups, kinds, strict=True) if k == "comm_locations"}
    members = []
    for x, kind in zip(groups, kinds, strict=True):
        ids = x["members"]
        if kind == "comm_group":
            ids = [listed[x["paradigm"]][m] for m in ids]
        if kind == "regions":
            members.append([rows["REGION"][m] for m in ids])
        elif kind in ("locations", "comm_locations", "comm_group"):
            members.append([rows["LOCATION"][m] for m in ids])
        else:
            members.append(ids)
    check(
        store,
        "groups",
        id=[x["self"] for x in groups],
        name=[text[x["name"]] for x in groups],
        type=kinds,
        paradigm=[enums.PARADIGMS[x["paradigm"]] for x in groups],
        flags=[x["groupFlags"] & ~1 for x in groups],
        members=members,
    )
    plain, inter = library.definitions["Comm"], library.definitions["InterComm"]
    of = [rows["GROUP"][x["group"]] for x in plain] + [rows["GROUP"][x["groupA"]] for x in inter]
    parents = [x["parent"] for x in plain] + [x["commonCommunicator"] for x in inter]
    kind_of = {"comm_self": "self", "comm_group": "group"}
    check(
        store,
        "communicators",
        id=[x["self"] for x in plain + inter],
        name=[text[x["name"]] for x in plain + inter],
        kind=[kind_of.get(kinds[g], "locations") for g in of[: len(plain)]] + ["inter"] * len(inter),
        paradigm=[enums.PARADIGMS[groups[g]["paradigm"]] for g in of],
        parent=[rows["COMM"][p] for p in parents],
        flags=[x["flags"] for x in plain + inter],
        members=[[] if kinds[g] == "comm_self" else members[g] for g in of],
        remote_members=[[]] * len(plain) + [members[rows["GROUP"][x["groupB"]]] for x in inter],
    )


def check_topologies(store: Store, library: Library, text: dict[int, str], rows: dict[str, dict[int, int]]) -> None:
    """Compare topologies and coordinates."""
    d = library.definitions
    axes = {x["self"]: x for x in d["CartDimension"]}
    mine = [[axes[a] for a in x["cartDimensions"]] for x in d["CartTopology"]]
    check(
        store,
        "topologies",
        id=[x["self"] for x in d["CartTopology"]],
        name=[text[x["name"]] for x in d["CartTopology"]],
        communicator=[rows["COMM"][x["communicator"]] for x in d["CartTopology"]],
        dimensions=[[text[a["name"]] for a in v] for v in mine],
        sizes=[[a["size"] for a in v] for v in mine],
        periodic=[[a["cartPeriodicity"] for a in v] for v in mine],
    )
    topology = {x["self"]: i for i, x in enumerate(d["CartTopology"])}
    communicator = table(store, "topologies")["communicator"]
    members = table(store, "communicators")["members"]
    check(
        store,
        "topology_coordinates",
        topology=[topology[x["cartTopology"]] for x in d["CartCoordinate"]],
        rank=[x["rank"] for x in d["CartCoordinate"]],
        location=[members[communicator[topology[x["cartTopology"]]]][x["rank"]] for x in d["CartCoordinate"]],
        coordinates=[x["coordinates"] for x in d["CartCoordinate"]],
    )
