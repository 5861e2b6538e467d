"""The Parquet store of a trace: written once, complete or not at all, read by location."""

from tracecols.store.reader import Store
from tracecols.store.writer import StoreWriter

__all__ = ["Store", "StoreWriter"]
