"""The pointer columns of all events of a location."""

from tracecols.model.pointers import SlicePointers


def pointers_of(model, location):
    """Return the pointer columns by name; (n_events,) int64, -1 is null."""
    pointers = SlicePointers(model)
    stacks = pointers.stacks(location)
    return pointers.columns(stacks, 0, stacks.time.size)
