"""Arrays and mipmaps: charged by what the card gave for them."""
import itertools

import pytest

from conftest import BLOCK, BUILD, CONTEXT, MIB, OUT_OF_MEMORY

LIMIT = 1024 * MIB


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_odd_shapes(place, seed):
    program = place.start("array", "shapes", seed, RATION_MEM=LIMIT).await_word("full")
    assert place.truth() == {program.pid: place.charged()} == place.slots()
    assert place.charged() > CONTEXT
    program.go().await_word("half")
    assert place.truth() == {program.pid: place.charged()}
    program.go().await_word("empty")
    assert place.truth() == {program.pid: CONTEXT} and place.charged() == CONTEXT
    program.go().end()


def test_they_go_with_their_context(place):
    place.run("array", "context", RATION_MEM=LIMIT)


def test_threads(place):
    program = place.start("array", "threads", RATION_MEM=LIMIT).await_word("ended")
    assert place.truth() == {program.pid: CONTEXT} and place.charged() == CONTEXT
    program.go().end()


def test_small_ones_share_a_block(place):
    """Each a row of 64 KiB, which takes 8 of them; the last block of the limit is kept back."""
    limit = CONTEXT + 3 * BLOCK
    program = place.start("array", "small", RATION_MEM=limit).await_word("full")
    assert place.truth() == {program.pid: CONTEXT + 2 * BLOCK}
    assert program.go().end().values["arrays"] == 2 * BLOCK // (8 * 65536)
    assert place.most() <= limit


def test_a_block_of_which_the_first_array_goes(place):
    place.run("array", "beside", RATION_MEM=CONTEXT + 10 * BLOCK, RATION_LOG="error", HELD="cuMemAlloc_v2",
              LD_LIBRARY_PATH=f"{BUILD}/preload/holding:{BUILD}/sim")
    assert place.most() <= CONTEXT + 10 * BLOCK


def test_what_is_mostly_padding(place):
    program = place.start("array", "thin", RATION_MEM=256 * MIB).await_word("refused")
    assert place.truth() == {program.pid: CONTEXT}
    program.go().end()
    assert place.most() <= 256 * MIB


# field fault 97
@pytest.mark.parametrize("limit", [LIMIT, None])
def test_odd_arguments(place, limit):
    ours = place.run("array", "odd", RATION_MEM=limit)
    assert ours.lines == place.run("array", "odd", preload=()).lines


@pytest.mark.parametrize("call", ["cuArray3DCreate", "cuMipmappedArrayCreate", "cuArrayDestroy",
                                  "cuMipmappedArrayDestroy"])
def test_a_call_that_fails(place, call):
    for nth, code in itertools.product((1, 3), (OUT_OF_MEMORY, 999)):
        place.region.unlink(missing_ok=True)
        place.run("array", "faults", RATION_MEM="512m", RATION_SIM_FAULT=f"{call}:{nth}={code}",
                  RATION_LOG="error")
