"""EARL for Python: any event and any state of a trace, at the speed of a look-up (1998 report; thesis, chapter 3).

Layer: next to reports and exports, above `Trace`, whose columns answer questions about all events at once.
"""

from tracecols.earl.definitions import (
    CallSite,
    Cartesian,
    Communicator,
    Location,
    Machine,
    Metric,
    Node,
    Process,
    Region,
    Thread,
    Window,
)
from tracecols.earl.events import Event
from tracecols.earl.statistics import P2Statistics, Statistics
from tracecols.earl.trace import EventTrace

__all__ = [
    "CallSite",
    "Cartesian",
    "Communicator",
    "Event",
    "EventTrace",
    "Location",
    "Machine",
    "Metric",
    "Node",
    "P2Statistics",
    "Process",
    "Region",
    "Statistics",
    "Thread",
    "Window",
]
