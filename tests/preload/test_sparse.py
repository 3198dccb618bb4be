"""Memory by handle that is mapped in sparse arrays, which no figure for the process shows."""
import pytest

from conftest import BLOCK, CONTEXT

LIMIT = "512m"


def test_it_is_charged_while_it_is_mapped(place):
    program = place.start("sparse", "held", RATION_MEM=LIMIT).await_word("held")
    assert place.charged() == CONTEXT + BLOCK
    # The card holds it, and does not say for whom.
    assert place.truth() == {program.pid: CONTEXT}
    program.go().await_word("end")
    assert place.truth() == {program.pid: CONTEXT} and place.charged() == CONTEXT
    program.go().end()


@pytest.mark.parametrize("case", ["ends", "streams"])
def test_cases(place, case):
    program = place.start("sparse", case, RATION_MEM=LIMIT).await_word("end")
    assert place.truth() == {program.pid: CONTEXT} and place.charged() == CONTEXT
    program.go().end()


def test_parts(place):
    place.run("sparse", "parts", RATION_MEM=LIMIT)


@pytest.mark.parametrize("call", ["cuMemMapArrayAsync", "cuArrayDestroy"])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_call_that_fails(place, call, nth):
    place.run("sparse", "faults", RATION_MEM=LIMIT, RATION_SIM_FAULT=f"{call}:{nth}=999",
              RATION_LOG="error")


def test_threads(place):
    """What their streams have not come to is all there at once."""
    place.run("sparse", "threads", RATION_MEM="4g")
