"""Programs that use devices, to be written with `otf2_writer`."""


class Offload:
    """A process that launches kernels and copies on streams, as Score-P records CUDA."""

    def __init__(self, archive, n_streams=1, references=True):
        self.archive = archive
        process = archive.process()
        self.host = archive.location("Master thread", process)
        self.streams = [archive.location(f"CUDA[0:{7 + i}]", process, "gpu") for i in range(n_streams)]
        self.stream_ref = archive.attribute("CUDA_STREAM_REF", "location")
        self.event_ref = archive.attribute("CUDA_EVENT_REF", "uint32")
        self.callsite = archive.define("Parameter", name=archive.string("callsite id"), parameter_type=2)
        archive.group("comm_locations", [self.host, *self.streams], "cuda")
        self.window = archive.define(
            "RmaWin", name=archive.string(""), comm=archive.comm("", range(n_streams + 1), paradigm="cuda"), flags=0
        )
        self.references = references

    def region(self, name, role="wrapper"):
        return (
            self.archive.region_of(name) if name in self.archive._regions else self.archive.region(name, role, "cuda")
        )

    def call(self, begin, end, name, stream=None, event=None, callsite=None):
        """Record a call of the host."""
        given = (
            [(self.stream_ref, "location", stream if isinstance(stream, int) else stream.id)]
            if stream is not None
            else []
        )
        given += [(self.event_ref, "uint32", event)] if event is not None else []
        region = self.region(name)
        self.host.record(begin, "Enter", region=region, attributes=given)
        if callsite is not None:
            self.host.record(begin, "ParameterUnsignedInt", parameter=self.callsite, value=callsite)
        self.host.leave(end, region)
        return self

    def kernel(self, begin, end, stream=0, name="kernel", callsite=None):
        """Record a kernel."""
        region = self.region(name, "function")
        s = self.streams[stream].enter(begin, region)
        if callsite is not None:
            s.record(begin, "ParameterUnsignedInt", parameter=self.callsite, value=callsite)
        s.leave(end, region)
        return self

    def copy(self, begin, end, what, n=8, stream=0):
        """Record a copy on a stream."""
        given = {"window": self.window, "remote": 0, "matching": 42}
        if what == "to host":
            self.streams[stream].record(begin, "RmaPut", **given, sent=n)
        else:
            self.streams[stream].record(begin, "RmaGet", **given, received=n)
        self.streams[stream].record(end, "RmaOpCompleteBlocking", window=self.window, matching=42)
        return self


def small(archive):
    """Record a program with one stream: a launch, a copy that waits for the kernel, and idle times."""
    p = Offload(archive)
    p.host.enter(0, "main")
    # idle until 10: before the launch; 10..14: after the launch, which returns at 13
    p.call(10, 13, "cuLaunchKernel", p.streams[0]).kernel(14, 40)
    # the copy waits for the kernel from 20 to 40, then for itself from 42 to 50
    p.call(20, 51, "cuMemcpyDtoH_v2").copy(42, 50, "to host", 64)
    # nothing is pending
    p.call(60, 65, "cuCtxSynchronize")
    p.host.leave(100, "main")
    return p
