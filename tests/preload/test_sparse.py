"""Memory by handle that is mapped in sparse arrays, which no figure for the process shows."""
import time

import pytest

from conftest import BLOCK, CONTEXT

LIMIT = "512m"


def await_charge(place, want):
    """The worker sees what has gone."""
    end = time.monotonic() + 30
    while place.charged() != want and time.monotonic() < end:
        time.sleep(0.02)
    assert place.charged() == want


def test_it_is_charged_while_it_is_mapped(place):
    program = place.start("sparse", "held", RATION_MEM=LIMIT).await_word("held")
    assert place.charged() == CONTEXT + BLOCK
    # The card holds it, and does not say for whom.
    assert place.truth() == {program.pid: CONTEXT}
    program.go().await_word("end")
    assert place.truth() == {program.pid: CONTEXT} and place.charged() == CONTEXT
    program.go().end()


def test_it_goes_when_the_stream_comes_to_that(place):
    program = place.start("sparse", "ordered", RATION_MEM=LIMIT).await_word("waits")
    assert place.charged() == CONTEXT + 3 * BLOCK
    program.go().await_word("gone")
    await_charge(place, CONTEXT + BLOCK)
    program.go().end()


@pytest.mark.parametrize("case", ["ends", "streams"])
def test_cases(place, case):
    program = place.start("sparse", case, RATION_MEM=LIMIT).await_word("end")
    assert place.truth() == {program.pid: CONTEXT} and place.charged() == CONTEXT
    program.go().end()


@pytest.mark.parametrize("case", ["parts", "batch", "child"])
def test_other_cases(place, case):
    place.run("sparse", case, RATION_MEM=LIMIT)


@pytest.mark.parametrize("call", ["cuMemMapArrayAsync", "cuArrayDestroy"])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_call_that_fails(place, call, nth):
    place.run("sparse", "faults", RATION_MEM=LIMIT, RATION_SIM_FAULT=f"{call}:{nth}=999",
              RATION_LOG="error")


def test_threads(place):
    """What their streams have not come to is all there at once."""
    place.run("sparse", "threads", RATION_MEM="4g")


def test_the_limit_is_the_limit(place):
    place.run("sparse", "full", RATION_MEM=CONTEXT + 4 * BLOCK, RATION_LOG="error")
    assert place.most() <= CONTEXT + 4 * BLOCK
