"""Groups with GLOBAL_MEMBERS: events count ranks in the paradigm's list of locations, not in the communicator."""

import pytest
from support.otf2_writer import Archive

import tracecols
from tracecols.converters.otf2.write import write_archive
from tracecols.errors import SourceError
from tracecols.slices.source import StoreSource
from tracecols.store import Store


def archive_of(path, flags, members=(3, 1), coordinate=3):
    """Make an archive in which the last of 4 processes sends to the second, in a communicator of these two."""
    archive = Archive(path)
    mpi = archive.mpi(4)
    send, receive = (archive.region(n, role="point2point", paradigm="mpi") for n in ("MPI_Send", "MPI_Recv"))
    group = archive.group("comm_group", list(members), flags=flags)
    pair = archive.define("Comm", name=archive.string("pair"), group=group, parent=mpi.world, flags=0)
    axis = archive.define("CartDimension", name=archive.string("x"), size=2, cart_periodicity=0)
    cart = archive.define("CartTopology", name=archive.string("t"), communicator=pair, cart_dimensions=[axis])
    archive.define("CartCoordinate", cart_topology=cart, rank=coordinate if flags else 0, coordinates=[1])
    for place, at, region, record, other in ((3, 10, send, "MpiSend", 1), (1, 20, receive, "MpiRecv", 3)):
        peer = other if flags else members.index(other)
        location = mpi.ranks[place].enter(at, region)
        (location.send if record == "MpiSend" else location.receive)(at + 2, peer, pair)
        location.leave(at + 5, region)
    return archive.write()


@pytest.mark.parametrize("flags", [0, 1])
def test_global_members__messages_match(tmp_path, flags):
    path = tracecols.convert(archive_of(tmp_path / "x.otf2", flags), tmp_path / "x.trace")
    trace = tracecols.open(path)
    assert list(trace.communicators.members[1]) == [3, 1]
    assert trace.definition("groups")["flags"].tolist()[-1] == 0
    # in the communicator the sender is rank 0 and the receiver rank 1
    assert [trace.store.read("p2p", i)["peer"].tolist() for i in range(4)] == [[], [0], [], [1]]
    (message,) = trace.messages.itertuples()
    assert (message.send_location, message.recv_location) == (3, 1)
    assert trace.topology_coordinates.location.tolist() == [3]
    assert trace.topology_coordinates["rank"].tolist() == [0]


def test_global_members__equal_the_library(tmp_path):
    pytest.importorskip("otf2")
    import otf2
    from support.otf2_compare import check_definitions, check_events
    from support.otf2_library import Library

    anchor = archive_of(tmp_path / "x.otf2", 1)
    store = Store(tracecols.convert(anchor, tmp_path / "x.trace"))
    library = Library(anchor)
    assert [x["groupFlags"] for x in library.definitions["Group"]][-1] == 1
    check_events(store, library)
    library.close()
    with otf2.reader.open(str(anchor)) as reader:
        pair = next(c for c in reader.definitions.comms if c.name == "pair")
        ids = store.definition("locations")["id"].to_pylist()
        assert [x._ref for x in pair.group.members] == [ids[3], ids[1]]
    # a rewritten archive has ranks in the communicator, and groups without the flag
    again = write_archive(StoreSource(store), tmp_path / "again.otf2")
    library = Library(again)
    written = Store(tracecols.convert(again, tmp_path / "again.trace"))
    check_definitions(written, library)
    assert check_events(written, library) == 6
    assert {x["groupFlags"] for x in library.definitions["Group"]} == {0}
    library.close()
    assert written.definition("communicators").equals(store.definition("communicators"))


def test_global_members__what_is_no_member_is_refused_or_nobody(opened, tmp_path):
    with pytest.raises(SourceError, match="names rank 4, which is not defined"):
        tracecols.convert(archive_of(tmp_path / "x.otf2", 1, members=(3, 1, 4)), tmp_path / "x.trace")
    with pytest.raises(SourceError, match="names rank 2, which is not defined"):
        tracecols.convert(archive_of(tmp_path / "y.otf2", 1, coordinate=2), tmp_path / "y.trace")
    trace = opened(archive_of(tmp_path / "z.otf2", 1, members=(3, 2)))
    assert [trace.store.read("p2p", i)["peer"].tolist() for i in range(4)] == [[], [0], [], [-1]]
