"""The definition tables of a Kineto trace."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.definition_tables import DefinitionTables
from tracecols.converters.intervals import ATTRIBUTES
from tracecols.converters.kineto import scan
from tracecols.converters.kineto.operations import Group, Member
from tracecols.converters.kineto.recording import ANNOTATIONS, C10D, STEP, Place, Recording
from tracecols.converters.nccl import find_operation
from tracecols.schema.enums import NCCL

_PYTHON = re.compile(r"(.+)\((\d{1,9})\): .+", re.DOTALL)
"""Python functions: `torch/optim/sgd.py(12): step`."""

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""Part of the names of built-in methods, `<built-in method numel of Tensor object at 0x7fdc681d0910>`, which differs
between ranks and runs."""

PHASE = 1 | 2
"""Flags of regions whose instances are phases."""

_LIBRARIES = {"HIP": "hip", "XPU": "ur|ze|pi|sycl", "MUSA": "mu|musa", "CUDA": "cu|cuda"}
"""Prefixes of the names of device calls, which no lower-case letter follows."""

ROLES = {scan.KERNEL: "kernel", scan.MEMCPY: "data_transfer", scan.MEMSET: "kernel"}
"""Roles of the regions of streams, by category."""


class Definitions(DefinitionTables):
    """The definition tables.

    Attributes
    ----------
    order : list of (int, int)
        Recording of each location, and its index in `Recording.places`.
    number : dict of (int, int) to int
        Location by recording and index in `Recording.places`.
    regions : list of (n_names,) int32
        Region of each name, by recording.
    """

    def __init__(self, recordings: Sequence[Recording], ranks: Sequence[int], hosts: Sequence[str]) -> None:
        super().__init__()
        self._rows: dict[tuple[str, str, str, str], int] = {}
        self._devices = [_device_of(recording) for recording in recordings]
        self.add("system_tree_nodes", name="machine", class_name="machine")
        nodes = {
            host: self.add("system_tree_nodes", name=host, class_name="node", parent=0)
            for host in sorted(set(hosts) - {""})
        }
        self.order: list[tuple[int, int]] = []
        for number, (recording, rank) in enumerate(zip(recordings, ranks, strict=True)):
            self._process(number, recording, rank, nodes.get(hosts[number], 0))
        self.number = {of: location for location, of in enumerate(self.order)}
        threads = [i for i, kind in enumerate(self.tables["locations"]["type"]) if kind == "cpu_thread"]
        self.add("groups", type="comm_locations", paradigm="pthread", flags=0, members=threads)
        for name, _, kind in ATTRIBUTES:
            self.add("attribute_definitions", name=name, type=kind)
        self.regions = [self._regions(number, recording) for number, recording in enumerate(recordings)]

    def _process(self, number: int, recording: Recording, rank: int, node: int) -> None:
        process = self.add_process(f"Rank {rank}", node, rank)
        for thread, at in enumerate(_threads_first(recording)):
            place = recording.places[at]
            self.order.append((number, at))
            name = self._name_of(number, recording, place)
            self.add_location(name, process, thread, is_device=place.is_device)

    def _name_of(self, number: int, recording: Recording, place: Place) -> str:
        if place.is_gloo:
            threads = [one.tid for one in recording.places if one.is_gloo]
            return f"GLOO[0:{threads.index(place.tid)}]"
        if not place.is_device:
            found = recording.thread_names.get((place.pid, place.tid), "")
            return found or f"thread {place.tid}"
        stream = f"{self._devices[number]}[{place.pid}:{place.tid}]"
        return f"{stream} ({place.level + 1})" if place.level else stream

    # -- regions -------------------------------------------------------------------------------------------------------

    def _region(
        self, name: str, canonical: str, role: str, paradigm: str, flags: int = 0, file: str = "", line: int = 0
    ) -> int:
        key = name, canonical, role, paradigm
        if key not in self._rows:
            self._rows[key] = self.add_region(name, role, paradigm, canonical, line, flags=flags, file=file)
        return self._rows[key]

    def _regions(self, number: int, recording: Recording) -> NDArray[np.int32]:
        """Define the regions of a recording; return the region of each name."""
        device = "hip" if self._devices[number] == "HIP" else "cuda"  # OTF2 has no paradigm for other devices
        has_gloo = any(place.is_gloo for place in recording.places)
        result = np.zeros(len(recording.names), np.int32)
        for k, (category, text) in enumerate(recording.names):
            if category in (scan.CUDA_RUNTIME, scan.CUDA_DRIVER):
                result[k] = self._region(text, text, "wrapper", "hip" if text.startswith("hip") else "cuda")
            elif category in ROLES:
                result[k] = self._region(text, text, ROLES[category], device)
            elif category == scan.PYTHON_FUNCTION:
                name = _ADDRESS.sub("", text)
                found = _PYTHON.fullmatch(name)
                file, line = (found[1], int(found[2])) if found else ("", 0)
                result[k] = self._region(name, name, "function", "user", file=file, line=line)
            elif has_gloo and category == scan.CPU_OP and text.startswith(C10D) and find_operation(text) is not None:
                result[k] = self._region(text, text, "task_create", NCCL)
            else:
                is_step = category in ANNOTATIONS and STEP.fullmatch(text) is not None
                result[k] = self._region(text, text, "function", "user", PHASE if is_step else 0)
        return result

    def region_of(self, recording: Recording, m: Member) -> int:
        """Return the region of an operation between processes."""
        s = recording.places[m.location].slices
        name = recording.names[int(s.name[m.row])][1].partition("(")[0]
        if m.operation is None:
            return self._region(name, name, "kernel", NCCL)
        return self._region(name, m.operation.function, m.operation.role, NCCL)

    # -- communicators -------------------------------------------------------------------------------------------------

    def communicator(self, group: Group, members: Sequence[Member]) -> int:
        """Define the communicator of a group, given the members of one of its operations; return its row."""
        streams = [self.number[m.recording, m.location] for m in members]
        name = " ".join(
            text
            for text in (group.name, f"({group.description})" if group.description not in ("", "undefined") else "")
            if text
        )
        return self.add_communicator(name, NCCL, streams)


def _device_of(recording: Recording) -> str:
    """Return the kind of device of the streams, from the names of the calls."""
    calls = [text for of, text in recording.names if of in (scan.CUDA_RUNTIME, scan.CUDA_DRIVER)]
    found = [
        device for device, prefix in _LIBRARIES.items() if any(re.match(f"({prefix})(?![a-z])", call) for call in calls)
    ]
    return next(iter(found), "DEVICE" if calls else "CUDA")


def _threads_first(recording: Recording) -> list[int]:
    """Return the indices of the places of a recording: the main thread, the other threads, the streams."""
    threads = [i for i, place in enumerate(recording.places) if not place.is_device]
    steps = {k for k, (of, text) in enumerate(recording.names) if of in ANNOTATIONS and STEP.fullmatch(text)}

    def order(i: int) -> tuple[bool, bool, int]:
        place = recording.places[i]
        has_steps = bool(steps) and bool(np.isin(place.slices.name, list(steps)).any())
        return place.pid != place.tid, not has_steps, int(place.slices.begin[0])

    return [*sorted(threads, key=order), *(i for i, place in enumerate(recording.places) if place.is_device)]
