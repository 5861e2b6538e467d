"""Meanings of records that differ between trace formats; a source states its capabilities, and the manifest of a store
keeps them."""

from __future__ import annotations

GET_COMPLETION = "get completion"
"""RMA_OP_COMPLETE_NON_BLOCKING is recorded for one-sided gets only; without it, for any one-sided operation."""
