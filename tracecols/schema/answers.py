"""Tables that answer the questions of analysts (`tracecols.verbs`): the columns of each answer."""

from __future__ import annotations

from tracecols.schema.columns import Column, table


def _subdomain(about: str = "") -> Column:
    return Column(
        f"{about}subdomain", "category", "subdomain it belongs to; only if the trace was opened with subdomains"
    )


_BINS = (
    Column("begin_seconds", "float64", "when the interval begins", "sec"),
    Column("end_seconds", "float64", "when it ends", "sec"),
)
_LOCATION = (
    Column("rank", "int32", "rank of the process", "rank"),
    Column("thread", "int32", "number of the thread in its process"),
    _subdomain(),
)
_REGION = (
    Column("region_name", "category", "name of the region"),
    Column("paradigm", "category", "what it belongs to: mpi, openmp, compiler, user, ..."),
)

COMM_MATRIX = table(
    "comm_matrix",
    "what one process, or thread, sends to another in point-to-point messages",
    Column("send_rank", "int32", "rank of the sender in MPI_COMM_WORLD", "rank"),
    Column("send_thread", "int32", "its thread; only by thread"),
    _subdomain("send_"),
    Column("recv_rank", "int32", "rank of the receiver in MPI_COMM_WORLD", "rank"),
    Column("recv_thread", "int32", "its thread; only by thread"),
    _subdomain("recv_"),
    Column("n_messages", "int64", "number of messages", "occ"),
    Column("bytes", "int64", "their lengths, as the sender states them", "bytes"),
)

MESSAGE_HISTOGRAM = table(
    "message_histogram",
    "the messages of some lengths",
    Column("from_bytes", "int64", "shortest length", "bytes"),
    Column("to_bytes", "int64", "length from which the next row counts", "bytes"),
    Column("n_messages", "int64", "number of messages", "occ"),
    Column("bytes", "int64", "their lengths", "bytes"),
    Column("share", "float64", "share of all bytes"),
)

COMM_OVER_TIME = table(
    "comm_over_time",
    "the messages of an interval of time",
    *_BINS,
    Column("n_sent", "int64", "messages that were sent in it", "occ"),
    Column("bytes_sent", "int64", "their lengths", "bytes"),
    Column("n_received", "int64", "messages that were received in it", "occ"),
    Column("bytes_received", "int64", "their lengths", "bytes"),
)

FLAT_PROFILE = table(
    "flat_profile",
    "a region (all of one name), a call path or a paradigm, on all locations",
    *_REGION,
    Column("path", "category", "call path; only by path, in the place of the region"),
    Column("visits", "int64", "how often it was entered", "occ"),
    Column("exclusive_seconds", "float64", "time in it, without what it calls", "sec"),
    Column("inclusive_seconds", "float64", "time in it and in what it calls; not by paradigm", "sec"),
    Column("share", "float64", "exclusive time as a share of all"),
)

LOAD_IMBALANCE = table(
    "load_imbalance",
    "a region (all of one name) and how its exclusive time is distributed among processes, or threads",
    *_REGION,
    Column("mean_seconds", "float64", "mean of all processes, or threads, also of those that never enter it", "sec"),
    Column("min_seconds", "float64", "least", "sec"),
    Column("max_seconds", "float64", "greatest", "sec"),
    Column("max_rank", "int32", "who has the greatest, of equals the first", "rank"),
    Column("max_thread", "int32", "its thread; only over threads"),
    Column("imbalance", "float64", "greatest by mean: 1 if all have the same"),
    Column(
        "lost_seconds", "float64", "greatest less mean, of all together: what all wait if they meet after it", "sec"
    ),
)

TIME_PROFILE = table(
    "time_profile",
    "what a region, paradigm, call path or process takes of an interval of time, on all CPU threads",
    *_BINS,
    Column("region_name", "category", "name of the region; only by region"),
    Column("paradigm", "category", "paradigm; only by paradigm"),
    Column("path", "category", "call path; only by path"),
    Column("rank", "int32", "rank; only by rank", "rank"),
    _subdomain(),
    Column("seconds", "float64", "exclusive time", "sec"),
    Column("share", "float64", "of the time of all CPU threads in the interval"),
)

IDLE_TIME = table(
    "idle_time",
    "how long a CPU thread has nothing to do",
    *_LOCATION,
    Column("total_seconds", "float64", "time for which its core is reserved", "sec"),
    Column("idle_seconds", "float64", "outside of parallel regions, or without a thread there", "sec"),
    Column("waiting_seconds", "float64", "in wait states with a known cause (see `waits`)", "sec"),
    Column("share", "float64", "both together as a share of the total"),
)

ITERATIONS = table(
    "iterations",
    "one instance of a region on one location; of nested ones the outermost",
    Column("iteration", "int64", "number of the instance on its location, from 0"),
    *_LOCATION,
    *_BINS,
    Column("seconds", "float64", "how long it takes; null if it never ends", "sec"),
)

LATE_SENDERS = table(
    "late_senders",
    "who waits for whom in late senders, the longest first",
    Column("victim_rank", "int32", "rank of the receiver, which waits", "rank"),
    Column("victim_thread", "int32", "its thread; only by thread"),
    _subdomain("victim_"),
    Column("victim_path", "category", "call path in which it waits; only by path"),
    Column("culprit_rank", "int32", "rank of the sender, which comes late", "rank"),
    Column("culprit_thread", "int32", "its thread; only by thread"),
    _subdomain("culprit_"),
    Column("culprit_path", "category", "call path in which it sends; only by path"),
    Column("n_waits", "int64", "how often", "occ"),
    Column("seconds", "float64", "how long in all", "sec"),
    Column("longest_seconds", "float64", "how long at most", "sec"),
)

WAITS_BY_CAUSE = table(
    "waits_by_cause",
    "what one call path of a location waits for another one, the longest first",
    Column("property", "category", "the wait state: id of a property"),
    *_LOCATION,
    Column("path", "category", "call path that waits"),
    Column("cause_rank", "int32", "rank that is waited for", "rank"),
    Column("cause_thread", "int32", "its thread"),
    _subdomain("cause_"),
    Column("cause_path", "category", "call path in which it comes; null where that is not known"),
    Column("n_waits", "int64", "how often", "occ"),
    Column("seconds", "float64", "how long in all", "sec"),
    Column("longest_seconds", "float64", "how long at most", "sec"),
    Column("longest_begin_seconds", "float64", "when the longest one begins", "sec"),
)

TOP_INSTANCES = table(
    "top_instances",
    "one of the worst instances of a property, the worst first",
    Column("severity", "float64", "what it costs, in the unit of the property: seconds, occurrences or bytes"),
    Column("begin_seconds", "float64", "when it begins; null where the pattern does not say", "sec"),
    Column("end_seconds", "float64", "when it ends", "sec"),
    *_LOCATION,
    Column("path", "category", "call path it is charged to"),
    Column("cause_rank", "Int32", "rank of who causes it; null where that is not known", "rank"),
    Column("cause_thread", "Int32", "its thread"),
    _subdomain("cause_"),
    Column("cause_path", "category", "call path in which it comes"),
    Column("cause_seconds", "float64", "when it comes", "sec"),
)

_RANK = Column("rank", "int32", "rank of the process", "rank")

TRAINING_STEPS = table(
    "training_steps",
    "one training step on a device of a rank: what the device does meanwhile",
    Column("step", "category", "name of the step; the whole run if there are none"),
    _RANK,
    Column("device", "category", "name of the device"),
    *_BINS,
    Column("seconds", "float64", "how long the step takes on the host", "sec"),
    Column("compute_seconds", "float64", "kernels run, none of which communicates", "sec"),
    Column("overlapped_seconds", "float64", "kernels communicate while others compute", "sec"),
    Column("exposed_seconds", "float64", "kernels communicate, and none computes", "sec"),
    Column("copy_seconds", "float64", "copies run, and no kernel", "sec"),
    Column("idle_seconds", "float64", "nothing runs", "sec"),
    Column(
        "host_bound_seconds",
        "float64",
        "of idle time: nothing is launched that has not begun; null where launches are not recorded",
        "sec",
    ),
    Column("waiting_seconds", "float64", "of communication: waiting for kernels of other ranks", "sec"),
)

STRAGGLERS = table(
    "stragglers",
    "a rank that others wait for in operations of NCCL and the like, and what makes it late",
    Column("step", "category", "training step in which it begins last; only by step"),
    _RANK,
    Column("n_operations", "int64", "operations that it takes part in and in which somebody waits; not by step", "occ"),
    Column("n_last", "int64", "operations in which it is waited for", "occ"),
    Column("wait_seconds", "float64", "what kernels of others wait for it, all together", "sec"),
    Column("share", "float64", "share of all these waits"),
    Column("host_seconds", "float64", "of that because its host takes longer than those of others", "sec"),
    Column("kernel_seconds", "float64", "because kernels and copies before on its streams take longer", "sec"),
    Column("earlier_wait_seconds", "float64", "because it has waited for another rank itself", "sec"),
    Column("latency_seconds", "float64", "because more time lies between launch and begin", "sec"),
    Column("unrecorded_seconds", "float64", "because its recording begins, or something was launched, later", "sec"),
    Column("fault", "category", "the largest of these: host, kernel, earlier_wait, latency or unrecorded"),
    Column("path", "category", "call path of the host, or kernel, that takes most too long"),
    Column("path_seconds", "float64", "what that costs others", "sec"),
)

KERNEL_PROFILE = table(
    "kernel_profile",
    "the kernels of one name, on all ranks or on one",
    *_REGION,
    Column("rank", "int32", "rank of the process; only by rank", "rank"),
    Column("n_kernels", "int64", "how many", "occ"),
    Column("seconds", "float64", "how long they run", "sec"),
    Column("share", "float64", "share of the time of all kernels"),
    Column("mean_seconds", "float64", "mean", "sec"),
    Column("min_seconds", "float64", "the shortest", "sec"),
    Column("max_seconds", "float64", "the longest", "sec"),
    Column("n_launched", "int64", "how many launches are recorded", "occ"),
    Column(
        "latency_seconds", "float64", "from the ENTER of the launch to the begin, mean; null without launches", "sec"
    ),
    Column("max_latency_seconds", "float64", "the same at most; null without launches", "sec"),
    Column(
        "queue_length",
        "float64",
        "kernels and copies that are launched to the stream and have not begun, at the launch; mean; null without "
        "launches",
    ),
    Column("max_queue_length", "Int64", "the same at most; null without launches"),
)

RECORDING_COSTS = table(
    "recording_costs",
    "a region (all of one name) and what its recording takes, those with most events first",
    *_REGION,
    Column(
        "kind", "category", "user, communication (it calls MPI, OpenMP or the like somewhere), or run time (it is that)"
    ),
    Column("visits", "int64", "how often it was entered", "occ"),
    Column("mean_seconds", "float64", "time of a visit, without what it calls", "sec"),
    Column("n_events", "int64", "events of entering and leaving it", "occ"),
    Column("bytes", "int64", "their records in an OTF2 archive, without counters", "bytes"),
    Column("cost_seconds", "float64", "what recording them takes, about", "sec"),
    Column("is_left_out", "bool", "whether recording it costs more than it tells, so that a filter leaves it out"),
)

ANSWERS = {
    table.name: table
    for table in (
        COMM_MATRIX,
        MESSAGE_HISTOGRAM,
        COMM_OVER_TIME,
        FLAT_PROFILE,
        LOAD_IMBALANCE,
        TIME_PROFILE,
        IDLE_TIME,
        ITERATIONS,
        LATE_SENDERS,
        WAITS_BY_CAUSE,
        TOP_INSTANCES,
        TRAINING_STEPS,
        STRAGGLERS,
        KERNEL_PROFILE,
        RECORDING_COSTS,
    )
}
"""By the name of the method of `Trace`."""
