"""Memory of a movable tenant that other processes open by cuIpcOpenMemHandle."""
import os
import signal
import time

import pytest

from conftest import BLOCK, CONTEXT, MIB, OUT_OF_MEMORY, Place

INVALID_HANDLE = 400
MAP_FAILED = 205
# Of a small piece; of one object; of several.
SIZES = [1000, 3 * MIB, 600 * MIB]


@pytest.fixture(name="place")
def make_movable(place):
    place.settings.update(RATION_MOVABLE="true", RATION_MEM="2g")
    return place


@pytest.fixture(name="other")
def make_other(place, tmp_path):
    """Another tenant on the same device."""
    folder = tmp_path / "other"
    folder.mkdir()
    other = Place(folder)
    other.sim_file, other.sim = place.sim_file, place.sim
    other.settings.update(RATION_MEM="2g")
    yield other
    other.close()


def handle_of(program, word="given"):
    program.await_word(word)
    return next(line.split()[1] for line in program.said if line.startswith("handle "))


def give(place, size, **more):
    program = place.start("ipc", "give", size, **more)
    return program, handle_of(program)


def opened(place, handle, **more):
    return place.run("ipc", "open", handle, **more).values["result"]


@pytest.mark.parametrize("size", SIZES)
def test_both_see_what_the_other_writes(place, size):
    """And nothing is charged twice."""
    giver, handle = give(place, size)
    before = place.charged()
    taker = place.start("ipc", "take", handle, size).await_word("taken")
    assert place.charged() <= before + CONTEXT + BLOCK
    taker.go().await_word("closed").go().end()
    done = giver.go().await_word("freed").go().end()
    assert [done.values[k] for k in ("first", "middle", "last")] == [11, 12, 13]


@pytest.mark.parametrize("size", SIZES)
def test_another_tenant_is_charged_for_it(place, other, size):
    giver, handle = give(place, size)
    taker = other.start("ipc", "take", handle, size).await_word("taken")
    assert other.charged() >= CONTEXT + size
    taker.go().await_word("closed")
    assert other.charged() <= CONTEXT + 2 * BLOCK
    taker.go().end()
    giver.go().await_word("freed").go().end()


def test_another_tenant_keeps_its_limit(place, other):
    giver, handle = give(place, 600 * MIB)
    assert opened(other, handle, RATION_MEM="500m", err=None) == OUT_OF_MEMORY
    giver.go().await_word("freed").go().end()


def test_the_exporter_itself_cannot_open_it(place):
    plain = place.run("ipc", "own", preload=()).out
    assert place.run("ipc", "own").out == plain


def test_what_was_freed_has_no_handle_any_more(place):
    giver, handle = give(place, 3 * MIB)
    giver.go().await_word("freed")
    assert opened(place, handle) == INVALID_HANDLE
    giver.go().end()


def test_nor_has_what_died(place, other):
    giver, handle = give(place, 3 * MIB)
    giver.kill()
    assert opened(place, handle) == INVALID_HANDLE
    assert opened(other, handle) == INVALID_HANDLE


def test_nor_has_what_died_and_left_a_child(place):
    giver = place.start("ipc", "fork")
    handle = handle_of(giver)
    children = subprocess_children(giver.pid)
    giver.popen.kill()
    giver.popen.wait()
    try:
        assert opened(place, handle) == INVALID_HANDLE
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)


def subprocess_children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(word) for word in f.read().split()]


@pytest.mark.skipif(os.environ.get("RATION_SANITIZE") == "thread", reason="it is a race of the program's")
def test_a_program_may_close_every_socket(place):
    giver = place.start("ipc", "close")
    handle = handle_of(giver)
    assert opened(place, handle) == 0
    assert opened(place, handle) == 0
    giver.go().end()


def test_who_has_no_handle_gets_nothing(place):
    giver, handle = give(place, 3 * MIB)
    guess = bytearray.fromhex(handle)
    guess[20] ^= 1
    assert opened(place, guess.hex()) == INVALID_HANDLE
    assert opened(place, handle) == 0
    giver.go().await_word("freed").go().end()


def test_without_ration_it_is_no_handle(place):
    giver, handle = give(place, 3 * MIB)
    assert opened(place, handle, preload=()) == INVALID_HANDLE
    giver.go().await_word("freed").go().end()


def test_the_drivers_own_handles_are_opened_as_always(place):
    giver = place.start("ipc", "give", 3 * MIB, preload=())
    taker = place.start("ipc", "take", handle_of(giver), 3 * MIB).await_word("taken")
    taker.go().await_word("closed").go().end()
    giver.go().await_word("freed").go().end()


def test_a_context_takes_what_is_open_in_it_along(place, other):
    giver, handle = give(place, 600 * MIB)
    taker = other.start("ipc", "end", handle).await_word("taken")
    assert 600 * MIB <= other.charged() < 1200 * MIB
    taker.go().await_word("ended")
    assert other.charged() <= CONTEXT + BLOCK
    taker.go().end()
    giver.go().await_word("freed").go().end()


def test_what_is_shared_stays_while_the_rest_is_away(place, other):
    giver, handle = give(place, 3 * MIB)
    place.suspend(True)
    taker = other.start("ipc", "take", handle, 3 * MIB).await_word("taken")
    taker.go().await_word("closed").go().end()
    place.suspend(False)
    done = giver.go().await_word("freed").go().end()
    assert [done.values[k] for k in ("first", "middle", "last")] == [11, 12, 13]


def await_charged(place, least, most):
    end = time.monotonic() + 20
    while not least <= place.charged() <= most:
        assert time.monotonic() < end, place.charged()
        time.sleep(0.02)


def test_freed_by_one_it_is_charged_until_the_other_has_closed_it(place):
    giver, handle = give(place, 600 * MIB)
    taker = place.start("ipc", "keep", handle).await_word("taken")
    giver.go().await_word("freed")
    time.sleep(1)
    assert 600 * MIB <= place.charged() <= 1000 * MIB
    taker.go().await_word("closed")
    await_charged(place, 0, 300 * MIB)
    taker.go().end()
    giver.go().end()


@pytest.mark.parametrize("how", ["killed", "ended"])
def test_whoever_dies_with_it_open_holds_nothing(place, how):
    giver, handle = give(place, 600 * MIB)
    taker = place.start("ipc", "keep", handle).await_word("taken")
    giver.go().await_word("freed")
    if how == "killed":
        taker.kill()
    else:
        taker.go().await_word("closed").go().end()
    await_charged(place, 0, 300 * MIB)
    giver.go().end()


def test_what_a_dead_process_was_charged_for_its_heir_is(place):
    giver, handle = give(place, 600 * MIB)
    taker = place.start("ipc", "keep", handle).await_word("taken")
    giver.kill()
    # Whoever comes next looks for the dead.
    place.run("ipc", "own")
    await_charged(place, 600 * MIB, 1000 * MIB)
    taker.go().await_word("closed")
    await_charged(place, 0, 300 * MIB)
    taker.go().end()


@pytest.mark.parametrize("movable", ["true", "false"])
def test_what_a_dead_process_exported_is_never_free(place, movable):
    """It stays charged for it until whoever holds it has looked, though he cannot for long."""
    # For both there is no room.
    place.settings.update(RATION_MOVABLE=movable, RATION_MEM="1g")
    giver, handle = give(place, 600 * MIB)
    taker = place.start("ipc", "keep", handle).await_word("taken")
    os.kill(taker.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, taker.pid, os.WSTOPPED | os.WNOWAIT)
    giver.kill()
    # Whoever comes next looks for the dead.
    for _ in range(2):
        assert opened(place, handle, err=None) != 0
        assert 600 * MIB <= place.charged()
    os.kill(taker.pid, signal.SIGCONT)
    await_charged(place, 600 * MIB, 600 * MIB + 2 * CONTEXT)
    taker.go().await_word("closed")
    await_charged(place, 0, 300 * MIB)
    taker.go().end()


def test_the_dead_do_not_wait_for_each_other(place):
    """Each had exported memory and held what the other had."""
    place.settings["RATION_MOVABLE"] = "false"
    keeper = place.start("ipc", "give", 3 * MIB).await_word("given")
    before = place.charged()
    givers = [place.start("ipc", "swap", 100 * MIB) for _ in range(2)]
    handles = [handle_of(program) for program in givers]
    for program, handle in zip(givers, reversed(handles)):
        program.popen.stdin.write(handle.encode())
        program.go().await_word("taken")
    for program in givers:
        program.kill()
    await_charged(place, before, before)
    keeper.go().await_word("freed").go().end()


def test_threads_open_and_close_at_once(place, other):
    givers = [give(place, size) for size in SIZES]
    taker = other.start("ipc", "threads", *(handle for _, handle in givers)).await_word("closed")
    await_charged(other, 0, CONTEXT + BLOCK)
    taker.go().end()
    for giver, _ in givers:
        giver.go().await_word("freed")
    await_charged(place, 0, len(SIZES) * (CONTEXT + 16 * MIB))
    for giver, _ in givers:
        giver.go().end()


@pytest.mark.parametrize("fault", ["cuMemAddressReserve:1=2", "cuMemImportFromShareableHandle:1=999",
                                   "cuMemImportFromShareableHandle:2=999", "cuMemMap:1=1", "cuMemMap:3=1",
                                   "cuMemSetAccess:1=101"])
def test_a_step_that_fails_leaves_nothing(place, other, fault):
    giver, handle = give(place, 600 * MIB)
    taker = other.start("ipc", "twice", handle, RATION_SIM_FAULT=fault).await_word("failed")
    assert int(taker.said[-2].split()[1]) in (OUT_OF_MEMORY, MAP_FAILED)
    assert other.charged() == CONTEXT
    taker.go().await_word("closed")
    await_charged(other, 0, CONTEXT + BLOCK)
    taker.go().end()
    giver.go().await_word("freed")
    await_charged(place, 0, 300 * MIB)
    giver.go().end()


def test_an_exporter_that_cannot_hand_it_out_says_so(place):
    giver, handle = give(place, 3 * MIB, RATION_SIM_FAULT="cuMemExportToShareableHandle:3=999")
    assert opened(place, handle) == INVALID_HANDLE
    assert opened(place, handle) == 0
    giver.go().await_word("freed").go().end()


def test_a_device_without_descriptors_shares_nothing(place):
    """Its memory moves all the same."""
    done = place.start("ipc", "give", 3 * MIB, RATION_LOG="warn",
                       RATION_SIM_FAULT="cuMemCreate:3=801").popen.communicate(timeout=60)
    assert b"cannot be shared by cuIpcGetMemHandle" in done[1] and b": 801, not 0" in done[1]


def test_it_leaves_no_socket(place):
    giver, handle = give(place, 3 * MIB)
    assert list(place.folder.glob("region.ipc*"))
    assert opened(place, handle) == 0
    giver.go().await_word("freed").go().end()
    assert not list(place.folder.glob("region.ipc*"))
