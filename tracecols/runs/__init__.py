"""Experiments: the cubes of many runs of a program with their parameters, what changed among them, and how times grow
with a parameter (thesis, chapter 7)."""

from __future__ import annotations

from tracecols.runs.experiment import Experiment

__all__ = ["Experiment"]
