"""Tasks run by the threads of this process."""

import time
from threading import Event, current_thread

import pytest
from conftest import LONG

from tracecols.work.executors import Stopped, Threads, beside, side_by_side


def test_map__yields_results_in_the_order_of_the_items_and_reports_all():
    def task(item, report):
        time.sleep(0.02 * (item == 0))
        report(item)
        return item * item

    done = []
    assert [*Threads(3).map(task, range(20), done.append)] == [k * k for k in range(20)]
    assert sorted(done) == [*range(20)]


def test_map__does_not_go_far_ahead_of_who_takes_large_results():
    begun = []

    def task(item, _report):
        begun.append(item)
        return item

    found = Threads(2).map(task, range(50), ahead=1)
    taken = []
    for item in found:
        taken.append(item)
        time.sleep(0.002)
        assert max(begun) <= item + 3
    assert taken == [*range(50)]


@pytest.mark.parametrize("jobs", [1, 3])
def test_side_by_side__takes_items_as_they_are_needed(jobs):
    """So that blocks of a file, for example, are not all in memory."""
    given = []
    blocks = (given.append(k) or k for k in range(50))
    for k, found in enumerate(side_by_side(jobs, lambda k: k, blocks, ahead=1)):
        assert found == k
        assert len(given) <= k + jobs + 2


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_side_by_side__yields_results_in_the_order_of_the_items(jobs):
    def square(k):
        time.sleep(0.005 * (k == 0))
        return k * k

    assert [*side_by_side(jobs, square, range(20))] == [k * k for k in range(20)]
    assert [*side_by_side(jobs, square, iter([3]), ahead=1)] == [9]
    with pytest.raises(ZeroDivisionError):
        list(side_by_side(jobs, lambda k: 1 // k, range(3)))


def test_map__ends_other_tasks_when_one_fails():
    began, reported = Event(), []

    def task(item, report):
        if item:
            began.wait(LONG)
            raise ValueError("a task failed")
        began.set()
        for k in range(1000):
            time.sleep(0.01)
            report(k)

    with pytest.raises(ValueError, match="a task failed"):
        list(Threads(2).map(task, [0, 1], reported.append))
    assert len(reported) < 1000


def test_map__ends_its_tasks_when_nobody_wants_more():
    began, reported, ended = Event(), [], []

    def task(item, report):
        if item:
            began.set()
            try:
                for k in range(1000):
                    time.sleep(0.01)
                    report(k)
            finally:
                ended.append(item)
        return began.wait(LONG)

    found = Threads(2).map(task, [0, 1], reported.append)
    assert next(found)
    found.close()
    assert ended == [1] and len(reported) < 1000


def test_beside__returns_what_a_thread_of_its_own_has_found():
    asked = []
    with beside(lambda go_on: (go_on(), current_thread()), lambda: asked.append(current_thread())) as result:
        _, thread = result()
        assert result() == (None, thread)
    assert asked == [thread] and thread is not current_thread()


def test_beside__raises_what_its_work_raises():
    def fail(_go_on):
        raise ValueError("no")

    with beside(fail, lambda: None) as result, pytest.raises(ValueError, match="no"):
        result()


@pytest.mark.parametrize("n", [1, 3])
def test_beside__ends_its_work_when_its_context_ends_with_an_error(n):
    """Even if several threads do so."""
    ended = []

    def work(go_on):
        def until_the_end(_item, _report):
            for _ in range(1000):
                time.sleep(0.01)
                go_on()

        try:
            list(Threads(2).map(until_the_end, range(n)))
        except Stopped:
            ended.append(True)
            raise

    with pytest.raises(KeyboardInterrupt), beside(work, lambda: None):
        raise KeyboardInterrupt
    assert ended
