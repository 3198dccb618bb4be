"""A process with two devices, one of which reaches the other's memory."""
import pytest
from conftest import SANITIZED


def ends_well(program):
    done = program.go().end()
    assert done.lines[-1] == "end" and done.err == ""


@pytest.mark.parametrize("movable", ["false", "true"])
def test_memory_of_one_device_is_reached_by_the_other(place, movable):
    place.sim["count"] = "2"
    ends_well(place.start("peers", RATION_MOVABLE=movable).await_word("reached"))


@pytest.mark.parametrize("movable", [pytest.param("false", marks=pytest.mark.plain), "true"])
def test_it_is_copied_where_none_reaches_the_others(place, movable):
    place.sim.update(count="2", p2p="no")
    program = place.start("peers", "apart", RATION_MOVABLE=movable).await_word("apart")
    if movable == "true":
        place.suspend(True)
        place.suspend(False)
    ends_well(program)


def test_it_is_reached_after_it_was_away(place):
    place.sim["count"] = "2"
    program = place.start("peers", RATION_MOVABLE="true").await_word("reached")
    place.suspend(True)
    place.suspend(False)
    assert program.go().end().lines[-1] == "end"


CASES = ["host", "pool", "streams", "batch", "graph", "fill", "array"]


@pytest.mark.some
@pytest.mark.parametrize("movable", [pytest.param("false", marks=pytest.mark.plain), "true"])
@pytest.mark.parametrize("case", CASES)
def test_all_is_done_as_with_the_drivers_own(place, case, movable):
    place.sim.update(count="2", p2p="no")
    ends_well(place.start("apart", case, RATION_MOVABLE=movable).await_word("ready"))


@pytest.mark.some
@pytest.mark.parametrize("case", ["graph", "fill", *CASES[:4], "array"])
def test_it_moves_meanwhile(place, case):
    place.sim.update(count="2", p2p="no")
    program = place.start("apart", case, RATION_MOVABLE="true").await_word("ready")
    for _ in range(1 if SANITIZED else 3):
        place.suspend(True)
        place.suspend(False)
    ends_well(program)


@pytest.mark.plain
@pytest.mark.parametrize("case", CASES)
def test_some_of_it_lies_in_host_memory(place, case):
    place.sim.update(count="2", p2p="no")
    place.settings = {"RATION_OVERSUBSCRIBE": "true", "RATION_RESIDENT": "4m", "RATION_HOST": "128m"}
    program = place.start("apart", case).await_word("ready")
    place.suspend(True)
    place.suspend(False)
    ends_well(program)


@pytest.mark.plain
@pytest.mark.parametrize("case", CASES)
def test_the_first_copy_comes_before_they_reach_each_other(place, case):
    """A capture, or work that does not end, keeps the one from being let reach the other's."""
    place.sim["count"] = "2"
    ends_well(place.start("apart", case, RATION_MOVABLE="true").await_word("ready"))
