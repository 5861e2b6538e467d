"""CUBE files in the form in which other tools write them."""

from __future__ import annotations

import io
import struct
import tarfile
from pathlib import Path

# main calls f, which calls g, and h; ids neither in depth-first order nor dense in the file
ANCHOR = """<?xml version="1.0" encoding="UTF-8"?>
<cube version="4.4">
<attr key="Creator" value="Score-P 6.0"/>
<metrics>
<metric id="0" type="{kind}"><disp_name>Time</disp_name><uniq_name>time</uniq_name><dtype>{dtype}</dtype><uom>sec</uom>
<url/><descr>Total.
More.</descr>
<metric id="3" type="EXCLUSIVE"><disp_name>Own</disp_name><uniq_name>own</uniq_name><dtype>DOUBLE</dtype><uom>sec</uom></metric>
</metric>
<metric id="7" type="POSTDERIVED"><uniq_name>rate</uniq_name><dtype>DOUBLE</dtype><uom>1/s</uom><cubepl>metric::time()</cubepl></metric>
<metric id="8" type="EXCLUSIVE"><uniq_name>longest</uniq_name><dtype>MAXDOUBLE</dtype><uom>sec</uom></metric>
</metrics>
<program>
<region id="4" mod="a.c" begin="3" end="9"><name>main</name><mangled_name>main</mangled_name><paradigm>compiler</paradigm><role>function</role></region>
<region id="2" mod="a.c" begin="-1" end="-1"><name>f</name></region>
<region id="1" mod="" begin="-1" end="-1"><name>g</name></region>
<cnode id="5" calleeId="4">
<cnode id="1" line="12" mod="a.c" calleeId="2"><parameter partype="numeric" parkey="i" parvalue="3"/><cnode id="0" calleeId="1"/></cnode>
<cnode id="3" line="0" calleeId="1"/>
</cnode>
</program>
<system>
<systemtreenode Id="0"><name>m</name><class>machine</class>
<locationgroup Id="0"><name>p</name><rank>7</rank><type>process</type>
<location Id="1"><name>t1</name><rank>1</rank><type>thread</type></location>
<location Id="0"><name>t0</name><rank>0</rank><type>thread</type></location>
</locationgroup></systemtreenode>
</system>
</cube>
"""


def archive(path: Path, members: dict[str, bytes]) -> Path:
    """Write a tar archive."""
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def index(order: str, *numbers: int, dense: bool = False) -> bytes:
    head = b"CUBEX.INDEX" + struct.pack(f"{order}IHB", 1, 0, 0 if dense else 1)
    return head if dense else head + struct.pack(f"{order}{1 + len(numbers)}I", len(numbers), *numbers)


def foreign(path: Path, kind="EXCLUSIVE", dtype="DOUBLE", anchor=ANCHOR, **members: bytes) -> Path:
    text = anchor.format(kind=kind, dtype=dtype).encode()
    named = {
        ("anchor.xml" if k == "anchor" else k.replace("_", ".", 1).removeprefix("m")): v for k, v in members.items()
    }
    return archive(path, {"anchor.xml": text} | named)


OLD_CUBE = """<?xml version="1.0" encoding="UTF-8"?>
<cube version="3.0">
<metrics><metric id="0"><disp_name>Time</disp_name><uniq_name>time</uniq_name><dtype>FLOAT</dtype><uom>sec</uom>
<metric id="1"><uniq_name>mpi</uniq_name><dtype>FLOAT</dtype><uom>sec</uom></metric></metric>
<metric id="2"><uniq_name>visits</uniq_name><dtype>INTEGER</dtype><uom>occ</uom><val>VOID</val></metric></metrics>
<program>
<region id="0" mod="a.f" begin="1" end="9"><name>main</name></region>
<region id="1" mod="MPI" begin="-1" end="-1"><name>MPI_Recv</name></region>
<csite id="0" line="-1" mod=""><callee>0</callee></csite>
<csite id="1" line="5" mod="a.f"><callee>1</callee></csite>
<cnode id="0" csiteId="0"><cnode id="1" csiteId="1"/></cnode>
</program>
<system><machine Id="0"><name>m</name><node Id="0"><name>n</name>
<process Id="0"><name></name><rank>0</rank><thread Id="0"><name></name><rank>0</rank></thread></process>
<process Id="1"><name></name><rank>1</rank><thread Id="1"><name></name><rank>0</rank></thread></process>
</node></machine></system>
<severity>
<matrix metricId="0"><row cnodeId="0">0.5
0.25
</row><row cnodeId="1">
1e-3 2e-3</row></matrix>
<matrix metricId="1"><row cnodeId="1">1e-3 0</row></matrix>
<matrix metricId="2"><row cnodeId="1">7 7</row></matrix>
</severity>
</cube>
"""
