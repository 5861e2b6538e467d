"""Call paths and profile: merging, roots, recursion, the measurement system, and damaged region stacks."""

import pytest
from support.pointers import pointers_of


def profile(model):
    p, names = model.profile, model.call_paths.paths_of(model.regions.name)
    return {
        (names[c], x): (e, v)
        for c, x, e, v in zip(
            p.call_path.tolist(), p.location.tolist(), p.exclusive.tolist(), p.visits.tolist(), strict=True
        )
    }


def test_merge__identical_paths_on_different_locations_are_one(archive, enhance):
    a, b = archive.location(), archive.location()
    a.enter(0, "main").call(2, 5, "f").call(6, 7, "g").leave(10, "main")
    b.enter(1, "main").call(3, 4, "g").call(5, 6, "f").leave(9, "main")
    model = enhance(archive)
    # siblings in the order they were first visited: f at 2 on a, g at 3 on b
    assert model.call_paths.paths_of(model.regions.name) == ["main", "main/f", "main/g"]
    assert model.call_paths.parent.tolist() == [-1, 0, 0]
    assert model.call_paths.end.tolist() == [3, 2, 3]
    # least recent ENTER: rows 0 and 1 on a, row 6 + 1 on b
    assert model.call_paths.representative.tolist() == [0, 1, 7]
    assert profile(model)["main", 1] == (2 + 1 + 3, 1)


def test_merge__a_tie_is_decided_by_the_location(archive, enhance):
    a, b = archive.location(), archive.location()
    b.call(5, 6, "f")
    a.call(5, 6, "f")
    assert enhance(archive).call_paths.representative.tolist() == [0]


def test_merge__regions_are_compared_by_definition_not_by_name(archive, enhance):
    one, other = archive.region("f", file="a.c"), archive.region("f", file="b.c")
    archive.location().call(0, 1, one).call(2, 5, other)
    model = enhance(archive)
    assert model.call_paths.paths_of(model.regions.name) == ["f", "f"]
    assert model.profile.exclusive.tolist() == [1, 3]


def test_recursion__lengthens_the_path(archive, enhance):
    archive.location().enter(0, "f").enter(1, "f").enter(3, "f").leave(6, "f").leave(10, "f").leave(15, "f")
    assert profile(enhance(archive)) == {("f", 0): (1 + 5, 1), ("f/f", 0): (2 + 4, 1), ("f/f/f", 0): (3, 1)}


def test_root__is_the_program_where_it_is_recorded(archive, enhance):
    archive.region("a.out", "artificial", "measurement_system")
    x = archive.location()
    x.record(0, "ProgramBegin", program="a.out", arguments=["-v"]).call(3, 5, "main").record(
        9, "ProgramEnd", exit_status=0
    )
    model = enhance(archive)
    assert profile(model) == {("a.out", 0): (3 + 4, 1), ("a.out/main", 0): (2, 1)}
    assert (model.scans[0].bad_exits, model.scans[0].open) == (0, 0)


def test_flush__is_a_region_of_one_event(archive, enhance):
    archive.location().enter(0, "f").record(4, "BufferFlush", stop_time=10).leave(12, "f")
    assert profile(enhance(archive)) == {("f", 0): (4 + 2, 1), ("f/TRACE BUFFER FLUSH", 0): (6, 1)}


def test_flush__that_ends_after_the_next_event_is_not_counted_twice(archive, enhance):
    x = archive.location()
    x.enter(0, "f").record(4, "BufferFlush", stop_time=10).call(7, 11, "g").leave(12, "f")
    # the flush counts until 10, g for the rest
    assert profile(enhance(archive)) == {("f", 0): (4 + 1, 1), ("f/TRACE BUFFER FLUSH", 0): (6, 1), ("f/g", 0): (1, 1)}


def test_flush__that_overlaps_another_has_what_is_left(archive, enhance):
    x = archive.location()
    x.enter(0, "f").record(4, "BufferFlush", stop_time=10).record(7, "BufferFlush", stop_time=12).leave(15, "f")
    # 4 to 10, and 10 to 12
    assert profile(enhance(archive)) == {("f", 0): (4 + 3, 1), ("f/TRACE BUFFER FLUSH", 0): (6 + 2, 2)}


def test_flush__that_ends_before_another_adds_nothing(archive, enhance):
    x = archive.location()
    x.enter(0, "f").record(4, "BufferFlush", stop_time=10).record(5, "BufferFlush", stop_time=8).leave(15, "f")
    assert profile(enhance(archive)) == {("f", 0): (4 + 5, 1), ("f/TRACE BUFFER FLUSH", 0): (6, 2)}


def test_recording__that_is_off_is_a_region(archive, enhance):
    x = archive.location()
    x.enter(0, "f").record(4, "MeasurementOnOff", mode=2).record(10, "MeasurementOnOff", mode=1).leave(12, "f")
    model = enhance(archive)
    assert profile(model) == {("f", 0): (4 + 2, 1), ("f/MEASUREMENT OFF", 0): (6, 1)}
    assert model.scans[0].bad_exits == 0
    pointers = pointers_of(model, 0)
    assert pointers["enterptr"].tolist() == [-1, 0, 1, 0]
    assert pointers["exitptr"].tolist() == [3, 2, -1, -1]


def test_exit__without_enter_is_counted_and_passed_over(archive, enhance):
    archive.location().leave(1, "g").enter(2, "f").leave(5, "f").leave(6, "f")
    model = enhance(archive)
    assert profile(model) == {("f", 0): (3, 1)}
    assert model.scans[0].bad_exits == 2
    assert pointers_of(model, 0)["enterptr"].tolist() == [-1, -1, 1, -1]


def test_exit__of_another_region_ends_the_one_on_top(archive, enhance):
    archive.location().enter(0, "f").enter(1, "g").leave(5, "f").leave(6, "f")
    model = enhance(archive)
    assert profile(model) == {("f", 0): (1 + 1, 1), ("f/g", 0): (4, 1)}
    assert model.scans[0].bad_exits == 1


def test_end__closes_regions_that_are_never_left(archive, enhance):
    archive.location().enter(0, "f").enter(4, "g").call(6, 9, "h")
    model = enhance(archive)
    assert profile(model) == {("f", 0): (4, 1), ("f/g", 0): (2, 1), ("f/g/h", 0): (3, 1)}
    assert model.scans[0].open == 2


def test_locations__may_be_empty(archive, enhance):
    archive.location()
    archive.location().call(3, 5, "f")
    archive.location()
    model = enhance(archive)
    assert profile(model) == {("f", 1): (2, 1)}
    assert [s.n for s in model.scans] == [0, 2, 0]
    for i in (0, 2):
        assert all(v.size == 0 for v in pointers_of(model, i).values())


def test_locations__without_any_event_give_an_empty_tree(archive, enhance):
    archive.mpi(2)
    model = enhance(archive)
    assert len(model.call_paths) == 0
    assert len(model.profile) == len(model.messages) == len(model.teams) == len(model.constructs) == 0


def test_locations__with_one_event_take_no_time(archive, enhance):
    archive.location().enter(7, "f")
    assert profile(enhance(archive)) == {("f", 0): (0, 1)}


@pytest.mark.parametrize("base", [0, (1 << 62) + 12345])
def test_times__keep_their_last_digit(archive, enhance, base):
    # a float64 has 53 bits
    archive.location().enter(base, "f").call(base + 1, base + 3, "g").leave(base + 4, "f")
    assert profile(enhance(archive)) == {("f", 0): (2, 1), ("f/g", 0): (2, 1)}
