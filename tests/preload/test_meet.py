"""Kernels on two devices that wait for each other, under a limit of GPU time."""
import pytest
from conftest import CONTEXT


@pytest.mark.some
@pytest.mark.parametrize("way", ["module", "library", "graph"])
@pytest.mark.parametrize("limits", ["30", "0:15,1:40"])
def test_they_meet(place, limits, way):
    """Each round would take 2.3 times as long as the one before it if what a kernel waited were paid at once."""
    place.sim["count"] = "2"
    done = place.start("meet", way, RATION_SM=limits).end()
    assert done.lines == ["met"] and done.err == ""


WAYS = {"two processes": [["0"], ["1"]], "one process": [["0", "1"]]}


@pytest.mark.some
@pytest.mark.parametrize("ranks", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("limit", [None, "50"])
def test_they_are_suspended_together(place, tmp_path, ranks, limit):
    """Who has launched what waits for another is not done before the other has launched it too."""
    words = tmp_path / "words"
    words.write_bytes(bytes(4096))
    place.sim["count"] = "2"
    place.settings.update({"RATION_MOVABLE": "true", "RATION_MEM": "512m"})
    if limit:
        place.settings["RATION_SM"] = limit
    programs = [place.start("ranks", words, *of) for of in ranks]
    for program in programs:
        program.await_word("ready")
    for _ in range(3):
        place.suspend(True)
        assert all(sum(place.truth(dev).values()) <= 2 * CONTEXT for dev in (0, 1))
        place.suspend(False)
    for program in programs:
        program.go()
    assert [program.end().lines[-1] for program in programs] == ["end"] * len(programs)


@pytest.mark.plain
@pytest.mark.parametrize("devices", [1, 2])
def test_a_queue_that_is_always_full(place, devices):
    """It is long, and waits for nobody: it is let run dry."""
    place.sim["count"] = str(devices)
    place.settings.update({"RATION_MOVABLE": "true", "RATION_MEM": "512m"})
    program = place.start("backlog").await_word("ready")
    place.suspend(True)
    place.suspend(False)
    assert program.go().end().lines[-1] == "end"
