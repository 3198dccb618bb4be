"""A tenant of several processes that is suspended."""
import os
import signal
import time

import pytest
from conftest import HAMI_PROCS, HAMI_PROC_BYTES

RUNNING, SUSPENDED = 1, 2
MOVABLE = {"RATION_MOVABLE": "true"}


def statuses(place):
    """{pid: status} of all slots that are not free."""
    found = {}
    for i in range(8):
        at = HAMI_PROCS + HAMI_PROC_BYTES * i
        status = place.words(at + 1928, "i")[0]
        if status:
            found[place.words(at, "i")[0]] = status
    return found


def await_statuses(place, wanted):
    end = time.monotonic() + 30
    while statuses(place) != wanted:
        assert time.monotonic() < end, (statuses(place), wanted)
        time.sleep(0.01)


def start(place):
    return place.start("signals", "none", **MOVABLE)


def test_all_processes_are_suspended_and_go_on(place):
    programs = [start(place).await_word("ready") for _ in range(3)]
    place.suspend(True)
    assert statuses(place) == {p.pid: SUSPENDED for p in programs}
    # One that comes meanwhile is suspended too.
    late = start(place)
    programs.append(late)
    await_statuses(place, {p.pid: SUSPENDED for p in programs})
    # One that dies holds nobody up.
    programs.pop(0).kill()
    place.suspend(False)
    late.await_word("ready")
    for program in programs:
        assert program.go().end().lines[-1] == "end"


def test_one_that_is_stopped_is_suspended_when_it_runs_again(place):
    program = start(place).await_word("ready")
    os.kill(program.pid, signal.SIGSTOP)
    done = place.ask_suspend(True, 1)
    assert done.returncode == 1 and b"not yet" in done.stdout
    os.kill(program.pid, signal.SIGCONT)
    await_statuses(place, {program.pid: SUSPENDED})
    place.suspend(False)
    assert program.go().end().lines[-1] == "end"


def test_a_tenant_that_was_suspended_begins_anew(place):
    """What was asked of the dead is not asked of who comes after them."""
    program = start(place).await_word("ready")
    place.suspend(True)
    program.kill()
    program = start(place).await_word("ready")
    time.sleep(0.3)
    assert statuses(place) == {program.pid: RUNNING}
    assert program.go().end().lines[-1] == "end"


@pytest.mark.parametrize("call", ["destroy", "detach", "release", "reset"])
def test_a_context_that_would_end_meanwhile(place, call):
    """It ends when all has come back, which may need it."""
    program = place.start("ending", call, **MOVABLE).await_word("ready")
    place.suspend(True)
    program.go()
    time.sleep(0.3)
    place.suspend(False)
    assert program.end().lines[-1] == "end"


@pytest.mark.parametrize("what", ["pins", "alloc"])
def test_what_needs_the_device_meanwhile(place, what):
    """It waits, and takes nothing of the device."""
    program = place.start("meanwhile", what, **MOVABLE).await_word("ready")
    place.suspend(True)
    before = place.truth()
    program.go()
    time.sleep(0.5)
    assert place.truth() == before
    place.suspend(False)
    assert program.end().lines[-1] == "end"


@pytest.mark.parametrize("how", ["stream", "context", "reset"])
def test_a_capture_that_nobody_ends(place, how):
    """It is over with what it was in, and holds nothing up."""
    program = place.start("abandoned", how, RATION_MEM="512m", **MOVABLE).await_word("ready")
    place.suspend(True)
    place.suspend(False)
    assert program.go().end().lines[-1] == "end"
