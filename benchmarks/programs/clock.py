"""Local clocks of locations: conversion of times to the readings of a local clock, the inverse of `decode.correct` in
`tracecols.converters.otf2`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Readings = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Ticks of the common clock in increasing order, and the offsets to add to a local clock there; at least two."""


class LocalClock:
    """A local clock, interpolated linearly between readings (OTF2 ClockOffset): ticks of the common clock, and the
    offsets to add to the local one there.

    Raises ValueError if there are fewer than two readings, or the local clock goes backwards or shows less than 0.
    """

    def __init__(self, readings: Readings) -> None:
        common, offset = (np.asarray(v, np.int64) for v in readings)
        local = common - offset
        if local.size < 2 or local[0] < 0 or (np.diff(local) <= 0).any() or (np.diff(common) <= 0).any():
            raise ValueError("readings of a clock are two or more, not negative and increasing")
        self._common, self._offset, self._at = common, offset, local
        # the same slope as in the reader
        self._slope = np.diff(offset).astype(np.float64) / np.diff(local).astype(np.float64)

    @property
    def records(self) -> list[tuple[int, int]]:
        """Local ticks and offsets of the readings."""
        return list(zip(self._at.tolist(), self._offset.tolist(), strict=True))

    def common(self, local: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ticks of the common clock at local ones; (n,) int64."""
        k = np.clip(np.searchsorted(self._at, local) - 1, 0, self._slope.size - 1)
        ticks: NDArray[np.int64] = (
            local + self._offset[k] + np.rint(self._slope[k] * (local - self._at[k])).astype(np.int64)
        )
        return ticks

    def local(self, time: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first local ticks that correspond to given common ones; (n,) int64, -1 if there are none.

        A local clock that runs slow does not distinguish all ticks of the common one.
        """
        k = np.clip(np.searchsorted(self._common, time) - 1, 0, self._slope.size - 1)
        near = self._at[k] + np.rint((time - self._common[k]) / (1 + self._slope[k])).astype(np.int64)
        result = np.full(time.size, -1, np.int64)
        for candidate in (near + 2, near + 1, near, near - 1, near - 2):
            result = np.where(self.common(candidate) == time, candidate, result)
        return result
