"""Memory that a descriptor holds alone stays charged, in whatever process the descriptor is."""
import signal
import time

import pytest

from conftest import CONTEXT, MIB, OUT_OF_MEMORY

PIECE = 32 * MIB


def await_charged(place, bytes_):
    end = time.monotonic() + 30
    while place.charged() != bytes_:
        assert time.monotonic() < end, place.charged()
        time.sleep(0.02)


@pytest.mark.parametrize("movable", ["true", "false"])
@pytest.mark.parametrize("case", ["handles", "context", "dma-bufs"])
def test_what_a_descriptor_holds(place, case, movable):
    place.run("lent", case, RATION_MEM=CONTEXT + 256 * MIB, RATION_MOVABLE=movable, RATION_LOG="error")


@pytest.mark.parametrize("charge_context", ["true", "false"])
def test_what_an_import_of_its_own_holds(place, charge_context):
    """Also where nobody counts what the card says that a process has."""
    place.settings.update(RATION_MEM=CONTEXT + 256 * MIB, RATION_CHARGE_CONTEXT=charge_context, RATION_LOG="error")
    program = place.start("lent", "imported").await_word("imported")
    # Its worker looks some times meanwhile.
    time.sleep(1)
    program.go().end()


@pytest.mark.parametrize("how", ["ended", "killed"])
def test_it_outlives_its_maker_with_a_child(place, how):
    """Nobody of the tenant lives, and whoever comes has so much less."""
    place.settings.update(RATION_MEM=CONTEXT + PIECE + 8 * MIB, RATION_LOG="error")
    maker = place.start("lent", "outlives", *([how] if how == "killed" else []))
    assert maker.popen.wait(60) == (-signal.SIGKILL if how == "killed" else 0)
    next_ = place.start("quota", "hold", 8).await_word("held")
    assert place.charged() == CONTEXT + PIECE + 8 * MIB
    refused = place.run("quota", "hold", 2, status=1, err=None)
    assert f": {OUT_OF_MEMORY}" in refused.err
    # The child ends.
    maker.popen.stdin.close()
    await_charged(place, CONTEXT + 8 * MIB)
    next_.go().end()
