"""Kernels on two devices that wait for each other, under a limit of GPU time."""
import pytest


@pytest.mark.some
@pytest.mark.parametrize("way", ["module", "library", "graph"])
@pytest.mark.parametrize("limits", ["30", "0:15,1:40"])
def test_they_meet(place, limits, way):
    """Each round would take 2.3 times as long as the one before it if what a kernel waited were paid at once."""
    place.sim["count"] = "2"
    done = place.start("meet", way, RATION_SM=limits).end()
    assert done.lines == ["met"] and done.err == ""
