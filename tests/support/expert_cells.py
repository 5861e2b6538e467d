"""Compare severities under the conventions of EXPERT with those of its oracle."""

from collections import defaultdict


def cells(cube):
    """Return the severities in seconds, occurrences or counts by property, call path, rank and thread.

    Wavefronts are left out: EXPERT 3.0 does not look for them.
    """
    found = defaultdict(float)
    for name in cube.properties.id:
        if "wavefront" in name:
            continue
        of = cube.cells[name]
        for call_path, location, value in zip(
            of.call_path.tolist(), of.location.tolist(), of.value.tolist(), strict=True
        ):
            rank, thread = int(cube.system.rank[location]), int(cube.system.thread[location])
            found[name, cube.call_paths.path[call_path], rank, thread] += value * cube.scale(name)
    return found


def differences(wanted, cube):
    """Return the cells that differ, each with its expected and its computed value."""
    found = cells(cube)
    return {
        k: (wanted.get(k, 0), found.get(k, 0))
        for k in wanted.keys() | found.keys()
        if abs(wanted.get(k, 0) - found.get(k, 0)) > 1e-9
    }
