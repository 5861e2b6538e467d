"""Versions of the formats of stores and cubes: which of them can be read, and what a file lacks or has in addition.

A minor version adds columns, tables, or entries of the manifest that a reader can do without; everything else is a new
major version. A column or table that is added declares the version it came with (`Column.since`, `Table.since`). In
older files it reads as null, or as its declared default; files that are not older must have it. Additional contents of
a file of a newer minor version are ignored and named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tracecols.schema.columns import Column, Table


class Version(NamedTuple):
    """The version of a format."""

    major: int
    """Readers of another major version refuse the file."""
    minor: int
    """Readers of an older minor version ignore what was added."""

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


def version_of(manifest: Mapping[str, Any]) -> Version | None:
    """Return the version that a manifest names (`version` and `minor_version`); the minor version is 0 if not named.
    None if it names no valid version."""
    major, minor = manifest.get("version"), manifest.get("minor_version", 0)
    if not isinstance(major, int) or not isinstance(minor, int) or isinstance(major, bool) or isinstance(minor, bool):
        return None
    return Version(major, minor) if min(major, minor) >= 0 else None


class Difference(NamedTuple):
    """Differences between the columns of a file and those that are declared."""

    lacking: tuple[Column, ...]
    """Declared columns that the file does not have, since it is older."""
    unknown: tuple[str, ...]
    """Columns of the file that are not declared, since it is newer."""


def difference(
    table: Table, found: Sequence[tuple[str, Any]], types: Mapping[str, Any], version: Version, known: Version
) -> Difference | None:
    """Compare the columns of a file of some version, `found` with their types in order, with those that are declared in
    the `known` version, of which `types` has the types in files.

    None if the file is damaged: it lacks a column that its version has, or has a column of another type, twice, or that
    its version does not have.
    """
    names = [name for name, _ in found]
    lacking = tuple(c for c in table.columns if c.name not in names)
    unknown = tuple(name for name in names if name not in table.names)
    expected = [c.name for c in table.columns if c.name in names]
    fits = (
        [name for name in names if name in table.names] == expected
        and all(types[name] == of for name, of in found if name in types)
        and all((column.since > version) == (column in lacking) for column in table.columns)
        and (not unknown or version > known)
    )
    return Difference(lacking, unknown) if fits else None


def newer_note(what: str, version: Version, known: Version, ignored: Sequence[str]) -> str:
    """Return a note that a `store` or `cube` is newer than this reader, and what is ignored; empty if it is not."""
    if version <= known:
        return ""
    besides = f"ignored: {', '.join(ignored)}" if ignored else "nothing had to be ignored"
    return f"{what} of format {version}, newer than {known}, which this tracecols knows; {besides}"
