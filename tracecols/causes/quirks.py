"""Peculiarities of the reference that its own definitions of root causes do not call for, each with a named switch
(docs/root-causes.md).

The steps of root causes read the switches as the value `quirks`. Under the conventions of Scalasca all are on, so that
every cell of the reference is reproduced; under the conventions `exact` all are off.
"""

from __future__ import annotations

from typing import NamedTuple


class Quirks(NamedTuple):
    """Peculiarities of the reference; the numbers are those of docs/root-causes.md."""

    rounds_seconds: bool
    """Times are float64 seconds. If the cause spent no more time on any call path, the wait is lost, or charged to
    rounding errors. Off: times are whole ticks, divided into whole ticks (by the largest remainder), and if the cause
    spent no more time on any call path, its own call is charged. Only then are the costs of waits equal to the waits,
    to the tick (Q0)."""
    limits_maps: bool
    """Maps of times hold 128 call paths (Q1)."""
    shifts_intervals: bool
    """Members of collective operations that have intervals of their own take on long-term costs one interval late
    (Q2)."""
    ignores_the_other_of_two: bool
    """If there are two processes, a point with just the other one does not begin an interval of the group (Q3)."""
    forgets_workers: bool
    """The time of worker threads after their last barrier in a parallel region is forgotten, and the time of their
    teams' forks and joins counts in the call path around. The time of a master outside all regions counts nowhere
    (Q4)."""
    divides_by_zero: bool
    """If one location visits all of the critical path, the impact is not a number for all locations (Q5)."""
    limits_scales: bool
    """Waits for messages are charged with at most the time that the other side lost (Q6)."""
    ends_costs_at_barriers: bool
    """Costs of thread barriers are not passed on at thread barriers (Q7)."""
    negates_completion: bool
    """The completion of late receivers is zero or negative (Q8)."""
    leaves_out_startup: bool
    """MPI_Init does not wait; waits in MPI_Finalize have no cause; the critical path lies between the two (Q9)."""
    splits_path: bool
    """The critical path goes on with all threads that do not wait at a barrier (Q10)."""
    scales_below_zero: bool
    """The time that locations lack compared with the critical path is scaled by negative numbers if they are busy for
    longer than the path (Q11)."""
    completes_with_receivers: bool
    """Completion of 1-to-n operations counts from the end of the first receiver that waited, not of the root (Q12)."""
    needs_shared_call_paths: bool
    """For members with intervals of their own, only call paths count that count in the interval of the whole group
    (Q13)."""
    ignores_tasks: bool
    """Tasks that a thread executes in a barrier count as waiting when it is charged (Q14)."""
    leaves_out_others: bool
    """Scans, locks, joins of created threads, and programs without MPI and OpenMP have no root causes; programs without
    MPI no long-term costs; idle threads are those beside every parallel region, nested ones too (Q15)."""
    counts_unexecuted: bool
    """Time in which nothing is executed below the artificial call paths THREADS and TASKS counts for them: that of a
    created thread from the start of the run on, that of a barrier in which a task begins (Q16)."""
    cuts_after_nested: bool
    """Anything executed inside of the call of a synchronisation point, like tasks in a barrier, belongs to the interval
    before that point (Q17)."""

    @classmethod
    def all(cls, value: bool) -> Quirks:
        """Return all switches on, or off."""
        return cls(**dict.fromkeys(cls._fields, value))


OF_SCALASCA, NONE = Quirks.all(True), Quirks.all(False)
"""The peculiarities of the reference, and none."""
