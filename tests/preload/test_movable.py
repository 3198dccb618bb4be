"""A movable tenant: to its programs all is as with the driver's own memory, while it moves."""
import mmap
import struct
import time

import pytest

from conftest import BUILD, CONTEXT, MIB, OWN, SANITIZED

MOVABLE = {"RATION_MOVABLE": "true"}
# include/ration/region.h
SUSPEND_WANT = 2312
# What the driver itself takes for a program with a module.
OVERHEAD = CONTEXT + 2 * MIB
# What churn asks for at once.
LARGEST = 42 * MIB


@pytest.fixture(name="place")
def make_movable(place):
    place.settings.update(MOVABLE)
    return place


def plain(place, *argv):
    return place.run(*argv, preload=()).out


def residency(place):
    """Words of each slot: card 0, host memory, moved bytes, is suspended."""
    size = place.region.stat().st_size
    at = size - 1024 * (448 + 16)
    with open(place.region, "rb") as f:
        f.seek(at)
        data = f.read(4 * 448)
    rows = []
    for i in range(4):
        row = data[448 * i:448 * (i + 1)]
        card = struct.unpack_from("Q", row, 0)[0]
        host, moved, suspended = struct.unpack_from("QQI", row, 8 * 32)
        rows.append((card, host, moved, suspended))
    return rows


def want(place, what):
    with open(place.region, "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
        struct.pack_into("I", m, OWN + SUSPEND_WANT, what)


def await_suspended(place, value, timeout=20):
    end = time.monotonic() + timeout
    while residency(place)[0][3] != value:
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.plain
def test_what_is_asked_is_answered_alike(place):
    said = plain(place, "asks")
    assert said.endswith("end\n")
    assert place.run("asks").out == said


@pytest.mark.plain
@pytest.mark.parametrize("example", ["launch", "verify"])
def test_examples(place, example):
    program = BUILD / "examples" / example
    out = place.run(program).out
    assert out.splitlines()[-1].split()[0] == plain(place, program).splitlines()[-1].split()[0]


def test_a_device_without_addresses_gives_its_own_memory(place):
    """It says so, and the limit holds."""
    program = place.start("quota", "exact", "alloc", 2 * MIB, RATION_MEM=256 * MIB,
                          LD_LIBRARY_PATH=f"{BUILD}/preload/without_vmm:{BUILD}/sim",
                          RATION_LOG="warn")
    program.await_word("full").go().await_word("empty")
    done = program.go().end()
    assert done.values["pieces"] == 96
    assert "cannot be moved" in done.err


def churn(place, seed, threads):
    return place.start("churn", seed, threads, 200, RATION_MEM="1g").await_word("working")


@pytest.mark.parametrize("seed,threads", [pytest.param(1, 1, marks=pytest.mark.plain), (2, 4)])
def test_random_programs(place, seed, threads):
    program = churn(place, seed, threads)
    time.sleep(1)
    program.go().await_word("end").go().end()


@pytest.mark.parametrize("seed,threads", [pytest.param(3, 1, marks=pytest.mark.plain), (4, 4)])
def test_random_programs_while_they_are_suspended_and_resumed(place, seed, threads):
    program = churn(place, seed, threads)
    for _ in range(3 if SANITIZED else 8):
        time.sleep(0.05)
        want(place, 1)
        await_suspended(place, 1)
        # What is asked for meanwhile is counted already, and taken later.
        assert residency(place)[0][0] <= threads * LARGEST
        assert place.truth().get(program.pid, 0) <= OVERHEAD
        want(place, 0)
        await_suspended(place, 0)
    done = program.go().await_word("end").go().end()
    assert done.values["moved"] > 0


@pytest.mark.parametrize("seed,threads", [pytest.param(5, 1, marks=pytest.mark.plain), (6, 4)])
def test_random_programs_with_little_on_the_card(place, seed, threads):
    place.settings = {"RATION_OVERSUBSCRIBE": "true", "RATION_RESIDENT": "16m", "RATION_HOST": "512m"}
    program = churn(place, seed, threads)
    spilled, looks = 0, 0
    end = time.monotonic() + 60
    while looks < (10 if SANITIZED else 100) or not spilled:
        assert time.monotonic() < end
        spilled = max(spilled, residency(place)[0][1])
        looks += 1
        assert place.truth().get(program.pid, 0) <= OVERHEAD + 16 * MIB
    assert spilled <= 512 * MIB
    program.go().await_word("end").go().end()


@pytest.mark.plain
@pytest.mark.parametrize("what", ["context", "retained", "create"])
def test_who_has_nothing_that_moves_is_suspended(place, what):
    program = place.start("little", what).await_word("ready")
    want(place, 1)
    await_suspended(place, 1)
    want(place, 0)
    await_suspended(place, 0)
    program.go().end()


def test_killed_it_leaves_nothing(place):
    program = churn(place, 7, 4)
    time.sleep(0.5)
    program.kill()
    other = place.start("quota", "exact", "alloc", 2 * MIB, RATION_MEM="1g").await_word("full")
    assert place.charged() <= 1024 * MIB
    assert sum(place.truth().values()) <= 1024 * MIB
    other.go().await_word("empty").go().end()
    assert residency(place)[1:] == [(0, 0, 0, 0)] * 3


@pytest.mark.plain
def test_what_another_process_keeps_at_hand_is_to_be_had(place):
    place.settings["RATION_MEM"] = 512 * MIB
    other = place.start("spill", "busy").await_word("busy")
    place.run("spill", "rest")
    other.kill()


@pytest.fixture(name="little")
def make_little(place):
    """64 MiB of the tenant's memory on the card, 128 MiB in host memory."""
    place.settings = {"RATION_OVERSUBSCRIBE": "true", "RATION_RESIDENT": "64m", "RATION_HOST": "128m",
                      "RATION_MEM": "12g"}
    return place


@pytest.mark.plain
@pytest.mark.parametrize("way", ["launch", "batch"])
def test_what_is_used_comes_to_the_card(little, way):
    """One comes, one goes; and nothing moves after that."""
    assert little.run("spill", "hot", way).values["moved"] == 32


def test_launches_that_are_timed_harm_nothing(little):
    assert little.run("timed").out == "end\n"


@pytest.mark.plain
def test_what_is_used_comes_to_a_card_that_is_never_idle(little):
    """All four, and four go: what is queued is waited for."""
    assert little.run("spill", "deep").values["moved"] == 128


@pytest.mark.plain
def test_what_is_used_in_turn_stays(little):
    assert little.run("spill", "scan").values["moved"] == 0


@pytest.mark.plain
def test_host_memory_has_an_end(little):
    assert little.run("spill", "fill", RATION_LOG="error").values["free"] == 64


@pytest.mark.plain
def test_an_end_of_host_memory_is_said(little):
    """Where the card's bound and that of host memory are both reached; one line."""
    out = little.run(BUILD / "examples" / "hog", "--piece", "32m", RATION_LOG="warn", err=None)
    assert "got 192 MiB" in out.out
    (line,) = [line for line in out.err.splitlines() if "refused" in line]
    assert line.endswith("32 MiB refused: the card has no room for it (0 B are free), "
                         "nor has host memory: 128 MiB of 128 MiB are in use")


@pytest.mark.plain
def test_what_the_dead_had_is_to_be_had(little):
    """On the card and in host memory, by who was there before they died."""
    program = little.start("spill", "after").await_word("ready")
    other = little.start("spill", "most").await_word("full")
    other.kill()
    program.go().end()


@pytest.mark.plain
def test_host_memory_that_another_process_keeps_is_to_be_had(little):
    other = little.start("spill", "keep").await_word("kept")
    assert little.run("spill", "all", RATION_LOG="error").values["free"] == 192
    assert other.go().end().values["host"] == 0


@pytest.mark.plain
def test_a_limit_above_the_card(little):
    """More than the card has is to be had, and shown."""
    little.settings = {"RATION_OVERSUBSCRIBE": "true", "RATION_HOST": "8g", "RATION_MEM": "12g"}
    program = BUILD / "examples" / "hog"
    out = little.run(program).out.splitlines()[-1]
    assert "got 12224 MiB" in out and "total 12288 MiB, free 0 MiB" in out


@pytest.mark.plain
@pytest.mark.parametrize("driver,fault", [("without_vmm", None), ("", "cuMemMap:1=801")])
def test_what_cannot_be_oversubscribed_is_refused(little, driver, fault):
    folders = f"{BUILD}/preload/{driver}:{BUILD}/sim" if driver else f"{BUILD}/sim"
    done = little.run("quota", "use", status=1, err=None, LD_LIBRARY_PATH=folders, RATION_SIM_FAULT=fault)
    assert "cannot be oversubscribed" in done.err and "cuInit(0)" in done.err


# field faults 147 and 152: what cannot spill was managed memory in secret, which its own free refused
@pytest.mark.plain
@pytest.mark.parametrize("kind", ["ordered", "handle"])
def test_what_cannot_lie_in_host_memory_has_an_end(little, kind):
    little.sim["mem"] = "256m"
    little.run("spill", "fixed", kind)


# field fault 149: nobody could say who fails and who slows down on a full card
@pytest.mark.plain
def test_a_full_card_is_the_newcomer_s_affair(place):
    """As docs/movable.md says: who holds memory keeps it, who comes gets what is left, or spills."""
    place.sim["mem"] = "384m"
    holder = place.start("spill", "holder", RATION_MOVABLE=None, RATION_MEM="256m").await_word("holding")
    held = place.truth()
    assert held == {holder.pid: OVERHEAD - 2 * MIB + 128 * MIB}
    place.settings["RATION_REGION"] = place.folder / "newcomer"
    hog = [BUILD / "examples" / "hog", "--piece", "32m"]
    # 384 less two contexts and what the other holds.
    out = place.run(*hog, RATION_MOVABLE=None, RATION_MEM="320m").out
    assert "got 128 MiB" in out and "total 320 MiB, free 0 MiB" in out
    assert place.truth() == held
    place.settings["RATION_REGION"] = place.folder / "spilling"
    out = place.run(*hog, RATION_MOVABLE=None, RATION_OVERSUBSCRIBE="true", RATION_HOST="1g", RATION_MEM="512m").out
    assert "got 448 MiB" in out and "total 512 MiB, free 0 MiB" in out
    assert place.truth() == held
    holder.go().await_word("whole").go().end()


@pytest.mark.plain
def test_schedulers_variable(little):
    little.settings = {"CUDA_OVERSUBSCRIBE": "true", "RATION_RESIDENT": "64m",
                       "CUDA_DEVICE_MEMORY_LIMIT": "12g"}
    assert little.run("spill", "scan").values["moved"] == 0


@pytest.mark.plain
def test_host_memory_that_forgets_is_not_used(little):
    """The first copy there fails: nothing lies there, and what has no room on the card is refused."""
    done = little.run("spill", "near", err=None, RATION_SIM_FAULT="cuMemcpyDtoHAsync:1=719,cuMemcpyDtoHAsync:2=719")
    assert done.values == {"card": 64, "host": 0}
    assert done.err.count("does not keep what it writes") == 1


def test_what_others_reach_comes_to_the_card(little):
    """All four, whose threads ask at once, in the place of the four that were there."""
    assert little.run("spill", "reached").values["moved"] == 128
