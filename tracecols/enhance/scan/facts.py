"""Facts about a whole trace: its definitions and, once all locations are scanned, its call tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from tracecols.enhance.definitions.definitions import Definitions
from tracecols.enhance.scan.call_paths import CallPaths
from tracecols.once import once


@dataclass(frozen=True, eq=False)
class Facts(Definitions):
    """Facts about the whole trace that steps read; small and picklable."""

    call_paths: CallPaths
    """The call tree of all locations."""

    @once
    def memo(self) -> WeakKeyDictionary[Any, Any]:
        """Results computed from the facts, by the function that computed them, for the lifetime of the function."""
        return WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}
