"""Read and write OTF2 archives with the format's own library, through the low-level interface of the `otf2` package.

The oracle of the OTF2 tests. Import it after `pytest.importorskip("otf2")`.
"""

from __future__ import annotations

import ctypes
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import _otf2
from _otf2.Config import conf

from tracecols.converters.otf2.records import EVENT_RECORDS

Event = tuple[int, int, tuple[int, ...], tuple[tuple[int, int, int], ...], tuple[tuple[int, int], ...]]
"""Time, kind, fields in the order of the C interface, attributes (attribute, type, bits), values (type, bits)."""

_C_TYPES = {
    "u8": ctypes.c_uint8, "c32": ctypes.c_uint32, "c64": ctypes.c_uint64, "s64": ctypes.c_int64, "ts": ctypes.c_uint64,
}  # fmt: skip

DEFINITION_NAMES = [
    "ClockProperties", "String", "Attribute", "SystemTreeNode", "LocationGroup", "Location", "Region", "Group",
    "MetricMember", "MetricClass", "MetricInstance", "Comm", "Parameter", "RmaWin", "SystemTreeNodeProperty",
    "LocationGroupProperty", "LocationProperty", "CartDimension", "CartTopology", "CartCoordinate",
    "SourceCodeLocation", "CallingContext", "InterruptGenerator", "IoRegularFile", "IoDirectory", "IoHandle",
    "InterComm",
]  # fmt: skip


def _plain(value: Any) -> Any:
    return [_plain(v) for v in value] if isinstance(value, list) else getattr(value, "value", value)


def _attributes(handle: int | None) -> tuple[tuple[int, int, int], ...]:
    if not handle:
        return ()
    n = conf.lib.OTF2_AttributeList_GetNumberOfElements(ctypes.c_void_p(handle))
    result = []
    for i in range(n):
        attribute, of, bits = ctypes.c_uint32(), ctypes.c_uint8(), ctypes.c_uint64()
        conf.lib.OTF2_AttributeList_GetAttributeByIndex(
            ctypes.c_void_p(handle), ctypes.c_uint32(i), ctypes.byref(attribute), ctypes.byref(of), ctypes.byref(bits)
        )
        result.append((attribute.value, of.value, bits.value))
    return tuple(result)


class Library:
    """An archive, read by the library.

    Attributes
    ----------
    definitions : dict of str to list of dict
        The definitions of every type in file order, fields by the names of the C interface.
    """

    def __init__(self, path: Path) -> None:
        self._handle = _otf2.Reader_Open(str(path))
        _otf2.Reader_SetSerialCollectiveCallbacks(self._handle)
        self.definitions: dict[str, list[dict[str, Any]]] = defaultdict(list)
        callbacks = _otf2.GlobalDefReaderCallbacks_New()
        keep = []
        for name in DEFINITION_NAMES:
            names = list(inspect.signature(getattr(_otf2, f"GlobalDefWriter_Write{name}")).parameters)[1:]

            def take(_: object, *values: Any, name: str = name, names: Sequence[str] = tuple(names)) -> None:
                self.definitions[name].append(dict(zip(names, map(_plain, values), strict=False)))

            keep.append(take)
            getattr(_otf2, f"GlobalDefReaderCallbacks_Set{name}Callback")(callbacks, take)
        reader = _otf2.Reader_GetGlobalDefReader(self._handle)
        _otf2.Reader_RegisterGlobalDefCallbacks(self._handle, reader, callbacks, None)
        _otf2.GlobalDefReaderCallbacks_Delete(callbacks)
        _otf2.Reader_ReadAllGlobalDefinitions(self._handle, reader)
        _otf2.Reader_CloseGlobalDefReader(self._handle, reader)
        self._opened = False

    def close(self) -> None:
        """Close the archive."""
        _otf2.Reader_Close(self._handle)

    def _open_events(self) -> None:
        self._opened = True
        locations = [x["self"] for x in self.definitions["Location"]]
        for location in locations:
            _otf2.Reader_SelectLocation(self._handle, location)
        try:
            _otf2.Reader_OpenDefFiles(self._handle)
            has_definitions = True
        except _otf2.Error:
            has_definitions = False
        _otf2.Reader_OpenEvtFiles(self._handle)
        for location in locations if has_definitions else []:
            reader = _otf2.Reader_GetDefReader(self._handle, location)
            if reader:
                _otf2.Reader_ReadAllLocalDefinitions(self._handle, reader)
                _otf2.Reader_CloseDefReader(self._handle, reader)

    def events(self, location: int) -> list[Event]:
        """Read all events of a location; the library maps ids to global ones and corrects times."""
        if not self._opened:
            self._open_events()
        events: list[Event] = []
        append = events.append
        callbacks = _otf2.EvtReaderCallbacks_New()
        keep = []
        for record in EVENT_RECORDS:
            head = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p]
            fields = [_C_TYPES[f.type] for f in record.fields]
            keep.append(_event_callback(record.code, head, fields, append))
            setter = getattr(conf.lib, f"OTF2_EvtReaderCallbacks_Set{record.name}Callback")
            setter.argtypes = None
            if setter(callbacks, keep[-1]):
                raise RuntimeError(f"no callback for {record.name}")
        reader = _otf2.Reader_GetEvtReader(self._handle, location)
        _otf2.Reader_RegisterEvtCallbacks(self._handle, reader, callbacks, None)
        _otf2.EvtReaderCallbacks_Delete(callbacks)
        _otf2.Reader_ReadAllLocalEvents(self._handle, reader)
        _otf2.Reader_CloseEvtReader(self._handle, reader)
        return events


def _event_callback(code: int, head: list[Any], fields: list[Any], append: Callable[[Event], None]) -> Any:
    if code == 31:

        def metric(
            _l: int, time: int, _p: int, _u: object, attributes: int | None, of: int, n: int, types, values
        ) -> int:
            append((time, code, (of, n), _attributes(attributes), tuple((types[i], values[i]) for i in range(n))))
            return 0

        pointers = [ctypes.POINTER(ctypes.c_uint8), ctypes.POINTER(ctypes.c_uint64)]
        return ctypes.CFUNCTYPE(ctypes.c_int, *head, *fields, *pointers)(metric)
    if code == 83:

        def program(_l: int, time: int, _p: int, _u: object, attributes: int | None, name: int, n: int, values) -> int:
            append((time, code, (name, n), _attributes(attributes), tuple((0, values[i]) for i in range(n))))
            return 0

        return ctypes.CFUNCTYPE(ctypes.c_int, *head, *fields, ctypes.POINTER(ctypes.c_uint32))(program)

    def plain(_l: int, time: int, _p: int, _u: object, attributes: int | None, *values: int) -> int:
        append((time, code, values, _attributes(attributes) if attributes else (), ()))
        return 0

    return ctypes.CFUNCTYPE(ctypes.c_int, *head, *fields)(plain)


def write_events(
    folder: Path,
    locations: dict[int, Iterable[tuple[int, str, Sequence[Any], Sequence[tuple[int, int, int]]]]],
    *,
    chunk: int = 1 << 18,
    mappings: dict[int, list[tuple[int, Sequence[int] | dict[int, int]]]] | None = None,
    clock_offsets: dict[int, list[tuple[int, int]]] | None = None,
) -> None:
    """Write event files, and local definitions, of an archive 'traces' with the library.

    Parameters
    ----------
    folder : Path
        Folder of the archive; global definitions and anchor must be overwritten afterwards.
    locations : dict
        By location: (time, record name, fields in the order of the C interface, attributes as (id, type, bits)).
    chunk : int
        Size of event chunks.
    mappings, clock_offsets : dict
        By location: (kind of identifier, table), (time, offset).
    """
    handle = _otf2.Archive_Open(
        str(folder), "traces", _otf2.FILEMODE_WRITE, chunk, 1 << 20, _otf2.SUBSTRATE_POSIX, _otf2.COMPRESSION_NONE
    )
    flush = _otf2.FlushCallbacks(pre_flush=lambda *_: _otf2.FLUSH, post_flush=None)
    _otf2.Archive_SetFlushCallbacks(handle, flush, None)
    _otf2.Archive_SetSerialCollectiveCallbacks(handle)
    _otf2.Archive_OpenEvtFiles(handle)
    for location, events in locations.items():
        writer = _otf2.Archive_GetEvtWriter(handle, location)
        for time, name, fields, attributes in events:
            listed = _otf2.AttributeList_New() if attributes else None
            if name == "Metric":
                fields = [*fields[:2], [_otf2.MetricValue(unsigned_int=bits) for bits in fields[2]]]
            for attribute, of, bits in attributes:
                value = _otf2.AttributeValue()
                value.uint64 = bits
                _otf2.AttributeList_AddAttribute(listed, attribute, of, value)
            getattr(_otf2, f"EvtWriter_{name}")(writer, listed, time, *fields)
            if listed:
                _otf2.AttributeList_Delete(listed)
        _otf2.Archive_CloseEvtWriter(handle, writer)
    _otf2.Archive_CloseEvtFiles(handle)
    _otf2.Archive_OpenDefFiles(handle)
    for location in locations:
        writer = _otf2.Archive_GetDefWriter(handle, location)
        for which, table in (mappings or {}).get(location, []):
            if isinstance(table, dict):
                table_handle = _otf2.IdMap_Create(_otf2.ID_MAP_SPARSE, len(table))
                for pair in table.items():
                    _otf2.IdMap_AddIdPair(table_handle, *pair)
            else:
                table_handle = _otf2.IdMap_Create(_otf2.ID_MAP_DENSE, len(table))
                for pair in enumerate(table):
                    _otf2.IdMap_AddIdPair(table_handle, *pair)
            _otf2.DefWriter_WriteMappingTable(writer, which, table_handle)
            _otf2.IdMap_Free(table_handle)
        for at, offset in (clock_offsets or {}).get(location, []):
            _otf2.DefWriter_WriteClockOffset(writer, at, offset, 0.0)
        _otf2.Archive_CloseDefWriter(handle, writer)
    _otf2.Archive_CloseDefFiles(handle)
    _otf2.Archive_Close(handle)
