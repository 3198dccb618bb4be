"""Kernels on two devices that wait for each other, under a limit of GPU time."""
import os
import signal

import pytest
from conftest import CONTEXT, SANITIZED


@pytest.mark.some
@pytest.mark.parametrize("way", ["module", "library", "graph"])
@pytest.mark.parametrize("limits", ["30", "0:15,1:40"])
def test_they_meet(place, limits, way):
    """Each round would take 2.3 times as long as the one before it if what a kernel waited were paid at once."""
    place.sim["count"] = "2"
    done = place.start("meet", way, RATION_SM=limits).end()
    assert done.lines == ["met"] and done.err == ""


def begin(place, folder, ranks, how):
    """Programs with these ranks, on as many devices."""
    words = folder / "words"
    words.write_bytes(bytes(4096))
    count = sum(map(len, ranks))
    place.sim["count"] = str(count)
    place.settings.update({"RATION_MOVABLE": "true", "RATION_MEM": "512m"})
    programs = [place.start("ranks", words, count, how, *of) for of in ranks]
    for program in programs:
        program.await_word("ready")
    return programs


def suspend_and_end(place, programs, devices, times):
    for time in range(1 if SANITIZED else times):
        place.suspend(True)
        if time == 0:
            assert all(sum(place.truth(dev).values()) <= devices * CONTEXT for dev in range(devices))
        place.suspend(False)
    for program in programs:
        program.go()
    assert [program.end().lines[-1] for program in programs] == ["end"] * len(programs)


WAYS = {"two processes": [["0"], ["1"]], "one process": [["0", "1"]]}


@pytest.mark.some
@pytest.mark.parametrize("how", ["waits", "full"])
@pytest.mark.parametrize("limit", ["50", None])
@pytest.mark.parametrize("ranks", WAYS.values(), ids=WAYS)
def test_they_are_suspended_together(place, tmp_path, ranks, limit, how):
    """Who has launched what waits for another is not done before the other has launched it too."""
    place.settings["RATION_SM"] = limit
    suspend_and_end(place, begin(place, tmp_path, ranks, how), 2, 3)


@pytest.mark.some
@pytest.mark.parametrize("count, limit, how, times", [
    (4, "30", "full", 3), (2, "5", "waits", 3), (8, None, "full", 3), (8, "30", "waits", 3), (4, "90", "full", 8),
    (8, "30", "full", 2), (16, "90", "waits", 2)])
def test_many_are_suspended_together(place, tmp_path, count, limit, how, times):
    """Of those whose launches others wait for none is held for the GPU time that they have used."""
    place.settings["RATION_SM"] = limit
    programs = begin(place, tmp_path, [[str(rank)] for rank in range(count)], how)
    suspend_and_end(place, programs, count, times)


@pytest.mark.plain
def test_one_that_is_slow_to_go_on(place, tmp_path):
    """It is not suspended for having been so before: it comes back, and then leaves with the others."""
    programs = begin(place, tmp_path, [["0"], ["1"], ["2"]], "large")
    place.suspend(True)
    for _ in range(3):
        place.ask_suspend(False, 0)
        os.kill(programs[0].pid, signal.SIGSTOP)
        done = place.ask_suspend(True, 1)
        # It may have been stopped before it knew that it was resumed.
        assert done.returncode == 1
        assert b"not answered" in done.stdout or b"%d ranks: suspended" % programs[0].pid in done.stdout
        os.kill(programs[0].pid, signal.SIGCONT)
        place.suspend(True)
    place.suspend(False)
    suspend_and_end(place, programs, 3, 1)


@pytest.mark.parametrize("limit", ["30", pytest.param(None, marks=pytest.mark.plain)])
def test_one_that_does_not_come(place, tmp_path, limit):
    """What it has not launched others wait for: it is said of each, and they go on when it does."""
    place.settings["RATION_SM"] = limit
    programs = begin(place, tmp_path, [["0"], ["1"], ["2"]], "full")
    os.kill(programs[1].pid, signal.SIGSTOP)
    for wait in (1,) if SANITIZED else (1, 1, 2):
        done = place.ask_suspend(True, wait)
        lines = done.stdout.decode().splitlines()
        assert done.returncode == 1 and len(lines) == 3
        assert all("suspended" in line or "not yet: " in line for line in lines)
    os.kill(programs[1].pid, signal.SIGCONT)
    place.suspend(True)
    place.suspend(False)
    suspend_and_end(place, programs, 3, 1)


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
