"""Stream-ordered memory: pools are charged by what they hold of the device."""
import itertools
import time

import pytest

from conftest import BUILD, CONTEXT, MIB, OUT_OF_MEMORY, SANITIZED

LIMIT = 256 * MIB
GROWTH = 32 * MIB
SECONDS = 1 if SANITIZED else 1.5


def test_a_pool_grows_in_steps_and_gives_back(place):
    program = place.start("pool", "grow", RATION_MEM=LIMIT).await_word("held")
    assert place.truth() == {program.pid: place.charged()} == place.slots()
    program.go().await_word("empty")
    assert place.truth() == {program.pid: CONTEXT} == place.slots()
    assert program.go().end().err == ""


def test_what_a_pool_keeps_counts(place):
    place.run("pool", "threshold", RATION_MEM=LIMIT)


def test_a_pool_that_is_destroyed(place):
    program = place.start("pool", "destroy", RATION_MEM=LIMIT).await_word("destroyed")
    assert place.truth() == {program.pid: place.charged()}
    program.go().end()


@pytest.mark.parametrize("pids", ["same", "bare"])
def test_a_pool_that_is_destroyed_before_its_stream_comes_to_the_frees(place, pids):
    """Also where NVML does not say what a process holds."""
    place.sim["pids"] = pids
    place.run("pool", "destroy-pending", RATION_MEM=LIMIT, RATION_LOG="error")
    assert place.most() <= LIMIT


def test_pools_that_are_destroyed_in_a_crowd(place):
    place.run("pool", "destroy-crowd", SECONDS, RATION_MEM=LIMIT, RATION_LOG="error")
    assert place.most() <= LIMIT


def test_a_managed_pool_that_is_destroyed(place):
    place.run("pool", "destroy-managed", RATION_MEM=LIMIT)


@pytest.mark.parametrize("pids", ["same", "bare"])
def test_a_managed_pool_that_is_destroyed_before_its_streams_come_to_the_frees(place, pids):
    place.sim["pids"] = pids
    place.run("pool", "destroy-managed-pending", RATION_MEM=LIMIT, RATION_LOG="error")


# field fault 6: a free of what a pool gave was refused
def test_frees_of_either_kind(place):
    place.run("pool", "frees", RATION_MEM=LIMIT)


# field fault 9
@pytest.mark.parametrize("driver", ["", "without_stream_device"])
def test_memory_of_another_device(place, driver):
    place.sim["count"] = 2
    path = f"{BUILD}/preload/{driver}:{BUILD}/sim" if driver else f"{BUILD}/sim"
    place.run("pool", "other-device", RATION_MEM=LIMIT, LD_LIBRARY_PATH=path)


# field fault 11
def test_a_loop_with_trims(place):
    assert place.run("pool", "loop", RATION_MEM=CONTEXT + 512 * MIB).err == ""


# field fault 8
@pytest.mark.parametrize("how", [[], ["break"]])
@pytest.mark.parametrize("limit", ["1g", "150m"])
def test_captured_allocations(place, how, limit):
    """They take nothing: not even a limit that they do not fit in is in their way."""
    if place.run("pool", "capture", *how, RATION_MEM=limit).out:
        pytest.skip("the software GPU captures no allocations")


@pytest.mark.parametrize("limit", [LIMIT, None])
def test_odd_arguments(place, limit):
    ours = place.run("pool", "odd", RATION_MEM=limit)
    assert ours.lines == place.run("pool", "odd", preload=()).lines


def test_threads(place):
    watcher = place.start("observe", 0, "watch", preload=()).await_word("watching")
    program = place.start("pool", "threads", RATION_MEM=LIMIT).await_word("begin")
    program.go().await_word("ended")
    assert place.truth() == {program.pid: place.charged()}
    program.go().await_word("empty")
    assert place.truth() == {program.pid: CONTEXT}
    values = program.go().end().values
    assert values["got"] > 0 and values["refused"] > 0
    assert LIMIT - 2 * GROWTH < watcher.end().values["most"] <= LIMIT
    assert place.run("most", preload=()).values["most"] <= LIMIT


@pytest.mark.parametrize("processes, threads, killed", [(1, 8, 0), (2, 3, 1)] if SANITIZED else
                         [(1, 8, 0), (3, 4, 0), (4, 3, 2)])
def test_never_above_the_limit(place, processes, threads, killed):
    """Nobody knows before whether a pool will grow: not even then, and not for a moment."""
    limit = (CONTEXT + 160 * MIB) * processes
    programs = [place.start("pressure", threads, 7 + i, RATION_MEM=limit, RATION_LOG="error")
                for i in range(processes)]
    for program in programs:
        program.await_word("ready")
    for program in programs:
        program.go()
    for program in programs[:killed]:
        time.sleep(SECONDS / 4)
        program.kill()
    time.sleep(SECONDS)
    values = [program.end().values for program in programs[killed:]]
    most = place.run("most", preload=()).values["most"]
    print(values, most / MIB, limit / MIB)
    assert sum(v["got"] for v in values) > 0 and sum(v["refused"] for v in values) > 0
    assert limit - 2 * GROWTH < most <= limit
    assert place.run("views", "nvml").values["nvml1.used"] == 0
    assert place.charged() == 0


def test_room_in_pieces(place):
    program = place.start("pool", "fragments", RATION_MEM=LIMIT).await_word("refused")
    assert sum(place.truth().values()) == place.charged() == LIMIT - GROWTH
    program.go().end()
    assert place.run("most", preload=()).values["most"] == LIMIT


def test_what_is_undone_by_and_by(place):
    place.run("pool", "pending", RATION_MEM=LIMIT, err=None)
    assert place.run("most", preload=()).values["most"] == LIMIT


@pytest.mark.parametrize("case", ["reuse", "late"])
def test_large_memory_is_given_out_again(place, case):
    place.run("pool", case, RATION_MEM=2 * LIMIT)
    assert place.run("most", preload=()).values["most"] <= 2 * LIMIT


FAULTS = ["cuMemAllocAsync", "cuMemAllocFromPoolAsync", "cuMemFreeAsync", "cuMemPoolCreate",
          "cuMemPoolDestroy", "cuMemPoolTrimTo", "cuMemPoolGetAttribute", "cuDeviceGetMemPool"]


@pytest.mark.parametrize("call", FAULTS)
def test_a_call_that_fails(place, call):
    for nth, code in itertools.product((1, 2, 5), (OUT_OF_MEMORY, 999)):
        place.region.unlink(missing_ok=True)
        program = place.start("pool", "faults", RATION_MEM="512m", RATION_SIM_FAULT=f"{call}:{nth}={code}",
                              RATION_LOG="error").await_word("look")
        assert sum(place.truth().values()) <= place.charged()
        assert program.go().end().err == ""


def test_the_current_pool_is_changed_on_the_way(place):
    """What served the call is charged, not what would have served it a moment before."""
    place.run("pool", "swapped", RATION_MEM=LIMIT, HELD="cuMemAllocAsync",
              LD_LIBRARY_PATH=f"{BUILD}/preload/holding:{BUILD}/sim")
