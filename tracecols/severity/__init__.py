"""The severity of properties per call path and location (thesis 4.14)."""

from tracecols.severity.cells import Cells
from tracecols.severity.cube import SeverityCube

__all__ = ["Cells", "SeverityCube"]
