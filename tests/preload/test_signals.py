"""SIGUSR2 and SIGUSR1 suspend and resume a process where the operator wants it so."""
import os
import signal
import time

import pytest
from conftest import HAMI_PROCS

RUNNING, SUSPENDED = 1, 2

# That sanitizer keeps a signal back until the program calls something, which here it waits to do.
pytestmark = pytest.mark.skipif(os.environ.get("RATION_SANITIZE") == "thread", reason="signals come late")


def await_status(place, wanted):
    end = time.monotonic() + 30
    while place.words(HAMI_PROCS + 1928, "i")[0] != wanted:
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("handler", ["none", "before", "after", "siginfo", "chain", "jump"])
def test_signals_suspend_and_resume(place, handler):
    program = place.start("signals", handler, RATION_MOVABLE="true", RATION_SIGNALS="true")
    program.await_word("ready")
    time.sleep(0.3)  # the worker has seen handlers that came after it
    for _ in range(3):
        os.kill(program.pid, signal.SIGUSR2)
        await_status(place, SUSPENDED)
        os.kill(program.pid, signal.SIGUSR1)
        await_status(place, RUNNING)
    done = program.go().end()
    own = 0 if handler == "none" else 3
    # In a child without a GPU the signal does what it would do without the library.
    assert done.lines[-3:] == [f"{own} {own}", f"child {signal.SIGUSR1 if handler == 'none' else 0}", "end"]
    assert done.err == ""


@pytest.mark.plain
def test_waits_that_can_go_on_do(place):
    """What the kernel never starts again after a handler ends early, as docs/movable.md says."""
    program = place.start("signals", "waits", RATION_MOVABLE="true", RATION_SIGNALS="true")
    program.await_word("ready")
    for call, is_restarted in (("read", True), ("sem_wait", True), ("nanosleep", False), ("poll", False)):
        time.sleep(0.3)
        os.kill(program.pid, signal.SIGUSR2)
        await_status(place, SUSPENDED)
        if is_restarted:
            program.go().await_word(f"{call} whole")
        else:
            program.await_word(f"{call} early")
        os.kill(program.pid, signal.SIGUSR1)
        await_status(place, RUNNING)
        program.go()
    program.end()


def test_they_are_the_programs_own_otherwise(place):
    program = place.start("signals", "before", RATION_MOVABLE="true")
    program.await_word("ready")
    os.kill(program.pid, signal.SIGUSR2)
    assert program.go().end().lines[-3:] == ["0 1", "child 0", "end"]
    program = place.start("signals", "none", RATION_MOVABLE="true")
    program.await_word("ready")
    os.kill(program.pid, signal.SIGUSR2)
    program.end(status=-signal.SIGUSR2)


def test_a_signal_and_the_region_each_hold_by_themselves(place):
    program = place.start("signals", "none", RATION_MOVABLE="true", RATION_SIGNALS="true")
    program.await_word("ready")
    os.kill(program.pid, signal.SIGUSR2)
    await_status(place, SUSPENDED)
    place.suspend(True)
    os.kill(program.pid, signal.SIGUSR1)
    time.sleep(0.3)
    assert place.words(HAMI_PROCS + 1928, "i")[0] == SUSPENDED
    place.suspend(False)
    await_status(place, RUNNING)
    program.end()


def test_resume_ends_what_a_signal_began(place):
    program = place.start("signals", "none", RATION_MOVABLE="true", RATION_SIGNALS="true")
    program.await_word("ready")
    for _ in range(2):
        os.kill(program.pid, signal.SIGUSR2)
        await_status(place, SUSPENDED)
        place.suspend(False)
        await_status(place, RUNNING)
    program.end()
