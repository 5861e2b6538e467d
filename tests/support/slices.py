"""Compare trace slices with the traces from which they are cut."""

from tracecols.model.model import enhance as enhance_store
from tracecols.search.cube import analyze_model
from tracecols.slices.opened import open_slice

CALLS = (
    "calls of MPI, OpenMP or for devices that begin before the piece or end after it: only a part of their waiting is "
    "in it"
)


def seconds(store, ticks):
    clock = store.manifest["clock"]
    return None if ticks is None else (ticks - clock["origin"]) / clock["resolution"]


def analyze_piece(store, start, stop, conventions="scalasca"):
    """Analyse the trace slice between two ticks; return its model and cube."""
    with open_slice(store, seconds(store, start), seconds(store, stop), 1) as piece:
        model = enhance_store(piece, 1)
        return model, analyze_model(model, conventions)
