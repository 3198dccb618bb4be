"""Memory of pools that processes share stays charged as long as the card holds it for one of them."""
import pytest

from conftest import CONTEXT, MIB


@pytest.mark.parametrize("case, movable", [(case, "false") for case in (
    "freed", "early", "alone", "turns", "ends", "killed")] + [("freed", "true"), ("killed", "true")])
def test_what_pools_hold_for_others(place, case, movable):
    place.run("pools", case, RATION_MEM=2 * CONTEXT + 512 * MIB, RATION_MOVABLE=movable, RATION_LOG="error")
