"""A tenant whose contexts leave the GPU too."""
import os
import subprocess
import time

import pytest
from conftest import BUILD, LIBRARY, PROGRAMS, SANITIZED

MOVABLE = {"RATION_MOVABLE": "true"}
RUN, SUSPENDED, DEEP = 0, 1, 2
RESIDENCY, RESIDENCY_BYTES = 2011136 + 1388544 + 32 * (256 + 2112 * 8 + 1024 * 64), 448


def ask(place, is_wanted, *options, wait=30, **more):
    return place.ask_suspend(is_wanted, wait, "--sim", *options, **more)


def deep(place, **more):
    done = ask(place, True, "--deep", **more)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout.decode()


def resume(place):
    done = ask(place, False)
    assert done.returncode == 0, (done.stdout, done.stderr)


def how_far(place, slot=0):
    return place.words(RESIDENCY + RESIDENCY_BYTES * slot + 272, "I")[0]


def start(place):
    return place.start("signals", "none", **MOVABLE)


def test_nothing_of_any_process_is_left(place):
    programs = [start(place).await_word("ready") for _ in range(3)]
    before, charged = place.truth(), place.charged()
    assert set(before) == {p.pid for p in programs}
    out = deep(place)
    assert all(f"{p.pid} signals: off the GPU" in out for p in programs)
    # What is charged stays so: it will be wanted back.
    assert place.truth() == {} and place.charged() == charged
    time.sleep(0.5)
    assert place.charged() == charged
    # Asked again, it is so already.
    deep(place)
    assert place.truth() == {}
    resume(place)
    assert place.truth() == before and place.charged() == charged
    for program in programs:
        assert program.go().end().lines[-1] == "end"


def test_one_that_dies_meanwhile(place):
    programs = [start(place).await_word("ready") for _ in range(2)]
    deep(place)
    programs[0].kill()
    assert place.truth() == {}
    resume(place)
    assert set(place.truth()) == {programs[1].pid}
    assert programs[1].go().end().lines[-1] == "end"
    assert place.truth() == {}


@pytest.mark.parametrize("fault, why", [
    ("cuCheckpointProcessLock:2=600", "cuCheckpointProcessLock gives 600"),
    ("cuCheckpointProcessCheckpoint:2=801", "cuCheckpointProcessCheckpoint gives 801"),
    ("cuCheckpointProcessGetState:2=1", "cuCheckpointProcessGetState gives 1"),
])
def test_one_of_two_that_fails(place, fault, why):
    """Both are suspended as without --deep."""
    programs = [start(place).await_word("ready") for _ in range(2)]
    done = ask(place, True, "--deep", RATION_SIM_FAULT=fault)
    assert done.returncode == 1 and why in done.stderr.decode(), done.stderr
    assert "suspended as without --deep" in done.stderr.decode()
    assert set(place.truth()) == {p.pid for p in programs}
    # It goes when it is asked again.
    deep(place)
    assert place.truth() == {}
    resume(place)
    for program in programs:
        assert program.go().end().lines[-1] == "end"


@pytest.mark.parametrize("faults", ["cuCheckpointProcessCheckpoint:2=999,cuCheckpointProcessRestore:1=999",
                                    "cuCheckpointProcessCheckpoint:2=999,cuCheckpointProcessUnlock:1=999"])
def test_where_not_even_that_can_be_undone(place, faults):
    """Then resume does it."""
    programs = [start(place).await_word("ready") for _ in range(2)]
    done = ask(place, True, "--deep", RATION_SIM_FAULT=faults)
    assert done.returncode == 1
    resume(place)
    assert set(place.truth()) == {p.pid for p in programs}
    for program in programs:
        assert program.go().end().lines[-1] == "end"


def test_suspended_deeper_and_less_deep(place):
    program = start(place).await_word("ready")
    before = place.truth()
    place.suspend(True)
    assert set(place.truth()) == {program.pid} and how_far(place) == SUSPENDED
    for _ in range(2):
        deep(place)
        assert place.truth() == {} and how_far(place) == DEEP
        done = ask(place, True)
        assert done.returncode == 0, done.stderr
        assert set(place.truth()) == {program.pid}
    resume(place)
    assert place.truth() == before
    assert program.go().end().lines[-1] == "end"


def test_without_a_driver_it_is_not_brought_back(place):
    program = start(place).await_word("ready")
    deep(place)
    done = place.ask_suspend(False, 5)
    assert done.returncode == 1 and b"there is no CUDA driver here" in done.stderr
    assert place.truth() == {} and how_far(place) == DEEP
    resume(place)
    assert program.go().end().lines[-1] == "end"


def test_a_driver_that_cannot(place):
    place.sim["driver"] = "12.6"
    program = start(place).await_word("ready")
    done = ask(place, True, "--deep")
    assert done.returncode == 1 and b"needs CUDA 12.8" in done.stderr
    assert how_far(place) == RUN
    assert program.go().end().lines[-1] == "end"


def test_a_program_with_host_memory_by_handle(place):
    """A card could not restore it: it is suspended, not as far as that."""
    program = place.start("hosted", **MOVABLE)
    for word in ("handle", "mapping"):
        program.await_word(word)
        done = ask(place, True, "--deep", wait=1)
        assert done.returncode == 1 and b"not yet: Operation not supported" in done.stdout
        assert how_far(place) == SUSPENDED and set(place.truth()) == {program.pid}
        resume(place)
        program.go()
    program.await_word("ready")
    deep(place)
    assert place.truth() == {}
    resume(place)
    assert program.go().end().lines[-1] == "end"


def test_asked_again_with_one_that_cannot(place):
    """All or none: those that are away come back too."""
    program = start(place).await_word("ready")
    deep(place)
    late = place.start("signals", "none", preload=(LIBRARY, PROGRAMS / "rdma" / "libibverbs.so.1"), **MOVABLE)
    late.await_word("ready")
    assert set(place.truth()) == {late.pid}
    done = ask(place, True, "--deep", wait=1)
    assert done.returncode == 1 and b"Operation not permitted" in done.stdout
    assert b"suspended as without --deep" in done.stderr
    assert set(place.truth()) == {program.pid, late.pid}
    late.kill()
    resume(place)
    assert program.go().end().lines[-1] == "end"


def test_one_that_comes_meanwhile(place):
    """It is held, with its context on the GPU, and leaves when that is asked for again."""
    program = start(place).await_word("ready")
    deep(place)
    late = start(place)
    end = time.monotonic() + 30
    while how_far(place, 1) != DEEP:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert set(place.truth()) == {late.pid}
    deep(place)
    assert place.truth() == {}
    resume(place)
    late.await_word("ready")
    for each in (late, program):
        assert each.go().end().lines[-1] == "end"


def test_two_commands_at_once(place):
    """Whatever comes of it, a resume afterwards brings all back."""
    programs = [start(place).await_word("ready") for _ in range(2)]
    before = place.truth()
    for i in range(2 if SANITIZED else 6):
        asked = [["suspend", "--deep"], ["resume"], ["suspend"], ["suspend", "--deep"]][i % 2:i % 2 + 3]
        running = [subprocess.Popen([BUILD / "ration", *words, place.region, "--sim", "--wait", "2"],
                                    env=place.environment(preload=()), stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL) for words in asked]
        for each in running:
            assert each.wait(timeout=60) in (0, 1)
        resume(place)
        assert place.truth() == before
    for program in programs:
        assert program.go().end().lines[-1] == "end"


def test_work_waits_until_it_is_back(place):
    program = place.start("meanwhile", "alloc", **MOVABLE).await_word("ready")
    deep(place)
    program.go()
    time.sleep(0.3)
    assert place.truth() == {}
    resume(place)
    assert program.end().lines[-1] == "end"


def test_it_comes_back_when_there_is_room(place):
    place.sim["mem"] = "256m"
    program = start(place).await_word("ready")
    deep(place)
    # What has the card now is of nobody's tenant.
    other = place.start("take_card", preload=()).await_word("ready")
    done = ask(place, False, wait=1)
    assert done.returncode == 1 and b"CUDA_ERROR_OUT_OF_MEMORY" in done.stderr
    assert program.pid not in place.truth()
    other.kill()
    resume(place)
    assert program.pid in place.truth()
    assert program.go().end().lines[-1] == "end"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_a_process_of_another_user(open_place):
    """Who may write the tenant's file may not have its processes."""
    program = start(open_place).await_word("ready")
    os.chmod(open_place.region, 0o666)
    os.chmod(open_place.sim_file, 0o666)
    done = subprocess.run([BUILD / "ration", "suspend", open_place.region, "--deep", "--sim", "--wait", "20"],
                          capture_output=True, check=False, user=65534,
                          env=open_place.environment(preload=()))
    assert done.returncode == 1 and b"CUDA_ERROR_NOT_PERMITTED" in done.stderr, (done.stdout, done.stderr)
    assert set(open_place.truth()) == {program.pid}
    resume(open_place)
    assert program.go().end().lines[-1] == "end"
