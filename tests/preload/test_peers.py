"""A process with two devices, one of which reaches the other's memory."""
import pytest


@pytest.mark.parametrize("movable", ["false", "true"])
def test_memory_of_one_device_is_reached_by_the_other(place, movable):
    place.sim["count"] = "2"
    done = place.start("peers", RATION_MOVABLE=movable).await_word("reached").go().end()
    assert done.lines[-1] == "end" and done.err == ""


@pytest.mark.parametrize("movable", [pytest.param("false", marks=pytest.mark.plain), "true"])
def test_it_is_copied_where_none_reaches_the_others(place, movable):
    place.sim.update(count="2", p2p="no")
    program = place.start("peers", "apart", RATION_MOVABLE=movable).await_word("apart")
    if movable == "true":
        place.suspend(True)
        place.suspend(False)
    done = program.go().end()
    assert done.lines[-1] == "end" and done.err == ""


def test_it_is_reached_after_it_was_away(place):
    place.sim["count"] = "2"
    program = place.start("peers", RATION_MOVABLE="true").await_word("reached")
    place.suspend(True)
    place.suspend(False)
    assert program.go().end().lines[-1] == "end"
