"""A card full of an oversubscribed tenant's objects gives way to what cannot move."""
import os
import signal
import time

import pytest

from conftest import SANITIZED

KINDS = ["handle", "async", "array", "mipmap", "context", "green", "module", "local", "heap", "graph"]


@pytest.fixture(name="full")
def make_full(place):
    """A card of 352 MiB, of which the tenant may have more than there is."""
    place.sim.update({"mem": "352m", "sms": 16})
    place.settings = {"RATION_OVERSUBSCRIBE": "true", "RATION_MEM": "8g", "RATION_HOST": "2g"}
    return place


@pytest.mark.parametrize("kind", ["async", "graph"] if SANITIZED else KINDS)
def test_the_card_gives_way(full, kind):
    full.sim["heap"] = "set"
    full.run("giving", kind)


@pytest.mark.plain
@pytest.mark.parametrize("kind", ["local", "graph"])
def test_it_does_so_where_launches_are_measured(full, kind):
    full.settings["RATION_SM"] = "90"
    full.run("giving", kind)


@pytest.mark.parametrize("share", ["90"] if SANITIZED else [None, "90"])
def test_a_launch_is_made_again(full, share):
    # One of them at least goes like an earlier one where launches are measured.
    full.settings["RATION_SIM_FAULT"] = ",".join(f"cuLaunchKernel:{n}=2" for n in (110, 131, 152, 173))
    if share:
        full.settings["RATION_SM"] = share
    full.run("giving", "launch")


def test_what_cannot_be_had_moves_nothing(full):
    full.run("giving", "nothing")


def test_nothing_goes_during_a_capture(full):
    full.run("giving", "captured")


def test_host_memory_has_an_end(full):
    full.settings["RATION_HOST"] = "64m"
    full.run("giving", "bounded")


def test_threads(full):
    full.run("giving", "threads")


@pytest.mark.plain
def test_another_process_gives_way(full):
    holder = full.start("giving", "holder").await_word("full")
    other = full.start("giving", "other").await_word("has")
    holder.go().end()
    other.go().end()



def test_suspended_meanwhile(full):
    program = full.start("giving", "steered").await_word("working")
    for _ in range(6):
        full.suspend(True)
        full.suspend(False)
    program.go().end()


def lose(full):
    """How a program ends whose region goes while it makes room; None if that caught it in the midst of a look."""
    program = full.start("giving", "lost").await_word("waiting")
    os.truncate(full.region, 4096)
    # Longer than it takes the region for whole, and than one look at what is to go.
    time.sleep(1)
    if program.popen.poll() is None:
        return program.go().end()
    assert program.popen.returncode == -signal.SIGBUS
    return None


@pytest.mark.plain
def test_the_region_goes_meanwhile(full):
    """Nothing is read of it any more; who is caught in the midst of a look is stopped, not again and again."""
    for _ in range(4):
        done = lose(full)
        if done:
            break
        os.unlink(full.region)
    assert done.lines[-1] == "end"
