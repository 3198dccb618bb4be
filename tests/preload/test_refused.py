"""The operating system refuses the library something: each of its calls in turn, once and for ever."""
import os

import pytest

from conftest import CONTEXT, LIBRARY, MIB, SANITIZED, library

LIMIT = 512 * MIB
FULL = bool(os.environ.get("RATION_SOAK"))
# Of the calls: all in a soak, else every so manieth.
STRIDE = 1 if FULL else 7

# A sanitizer has the memory of a program in its own hands.
pytestmark = pytest.mark.skipif(SANITIZED, reason="in the plain build")


def one(place, nth):
    """A round in which call `nth` is refused. What it took, and how many calls there were."""
    program = place.start("refused", preload=[library("refusing"), LIBRARY], RATION_LOG="error",
                          RATION_TEST_REFUSE=nth)
    program.await_word("full")
    said = dict(line.split() for line in program.said if " " in line)
    # Never more than the limit, whatever the library could not do.
    held = place.truth()
    assert sum(held.values()) <= LIMIT, (nth, said, held)
    program.go().end()
    return said


def every(place, suffix, before):
    """Refuses every call of a round; answers what was refused."""
    calls, nth, refused = int(one(place, "0")["calls"]), 1, {}
    while nth <= calls:
        before()
        said = one(place, f"{nth}{suffix}")
        refused[said["refused"]] = refused.get(said["refused"], 0) + 1
        nth += STRIDE
    print(f"{calls} calls, refused {refused}")
    return calls


@pytest.mark.parametrize("suffix", ["", "+"])
def test_alone(place, suffix):
    """The region is made anew each time."""
    place.settings["RATION_MEM"] = LIMIT
    calls = every(place, suffix, lambda: place.region.unlink(missing_ok=True))
    assert calls > 50


@pytest.mark.parametrize("suffix", ["", "+"])
def test_beside_another(place, suffix):
    """The region is another's, and so is the limit. What a round leaves behind would stay counted."""
    other = place.start("quota", "hold", 16, RATION_MEM=LIMIT).await_word("held")
    every(place, suffix, lambda: None)
    assert int(one(place, "0")["got"]) >= (LIMIT - 2 * CONTEXT - 16 * MIB) // MIB - 16
    place.run("views", "nvml")
    assert place.charged() == CONTEXT + 16 * MIB
    other.go().end()
