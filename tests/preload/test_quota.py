"""Not a byte over the limit, by any kind of allocation, and all of it back at the end."""
import itertools

import pytest

from conftest import (BLOCK, CONTEXT, LIBRARY, MIB, MOVABLE, OUT_OF_MEMORY, SANITIZED, library)

LIMIT = 256 * MIB
# Of objects that share blocks more pieces have room.
SHARED_BLOCKS = {3 * MIB: 63, MIB + 1: 190}
# The driver's small allocations leave a block of the limit; objects do not.
KEPT = 0 if MOVABLE else BLOCK


@pytest.mark.parametrize("kind,piece,pieces", [
    ("alloc", 2 * MIB, 96), ("alloc", 3 * MIB, 48), ("alloc", 64 * MIB, 3), ("alloc", 192 * MIB, 1),
    ("alloc", MIB + 1, 96), ("pitch", 2 * MIB, 96), ("pitch", 64 * MIB, 3),
    ("managed", 64 * MIB, 3), ("managed", 2 * MIB, 96), ("vmm", 2 * MIB, 96),
    ("vmm", 64 * MIB, 3), ("mapped", 2 * MIB, 96), ("mapped", 192 * MIB, 1),
])
def test_exact_amounts(place, kind, piece, pieces):
    if MOVABLE and kind == "alloc":
        pieces = SHARED_BLOCKS.get(piece, pieces)
    program = place.start("quota", "exact", kind, piece, RATION_MEM=LIMIT).await_word("full")
    used = place.truth()
    assert place.charged() <= LIMIT
    # Managed memory is paged: it counts whole, wherever its pages are.
    if kind != "managed":
        assert used == {program.pid: place.charged()} == place.slots()
    program.go().await_word("empty")
    assert place.charged() == CONTEXT
    assert place.truth() == {program.pid: CONTEXT}
    values = program.go().end().values
    full = LIMIT if pieces in SHARED_BLOCKS.values() else CONTEXT + pieces * -(-piece // BLOCK) * BLOCK
    assert (values["pieces"], values["charged"]) == (pieces, full)


@pytest.mark.some
@pytest.mark.parametrize("piece", [513, 65536, MIB, 1, 500])
def test_small_pieces_cannot_pass_the_limit(place, piece):
    """They are charged by the blocks of 2 MiB that the driver takes for them, and one is kept back."""
    place.settings["RATION_MEM"] = CONTEXT + 2 * BLOCK + KEPT
    program = place.start("quota", "exact", "alloc", piece).await_word("full")
    assert place.charged() == CONTEXT + 2 * BLOCK == sum(place.truth().values())
    values = program.go().await_word("empty").go().end().values
    assert values["pieces"] == 2 * (BLOCK // (-(-piece // 512) * 512))


def test_a_limit_that_is_no_whole_block(place):
    """What is left over a block cannot be had."""
    place.settings["RATION_MEM"] = CONTEXT + 2 * BLOCK + KEPT + BLOCK - 1
    program = place.start("quota", "exact", "alloc", 1000).await_word("full")
    assert place.charged() == CONTEXT + 2 * BLOCK == sum(place.truth().values())
    program.go().await_word("empty").go().end()


@pytest.mark.parametrize("seed,kinds", [
    (1, ["alloc"]), (2, ["alloc", "pitch"]), (3, ["vmm", "alloc", "mapped"]),
    (4, ["alloc", "managed", "pitch", "mapped"]),
])
def test_random_pieces(place, seed, kinds):
    watcher = place.start("observe", 0, "watch", preload=()).await_word("watching")
    program = place.start("quota", "mix", seed, *kinds, RATION_MEM=LIMIT)
    for _ in range(4):
        program.await_word("look")
        if "managed" not in kinds:
            assert place.truth() == {program.pid: place.charged()}
        program.go()
    program.await_word("end")
    assert place.charged() == CONTEXT and place.truth() == {program.pid: CONTEXT}
    program.go().end()
    most = watcher.end().values
    assert LIMIT // 2 < most["most"] <= LIMIT


# field fault 4, 92: everybody passed the check at once
def test_all_at_once(place):
    """8 processes with 8 threads each ask for 256 MiB of 1 GiB: exactly four get it."""
    for _ in range(1 if SANITIZED else 3):
        values = place.run("process", "race", 8, 8, 256, RATION_MEM=8 * CONTEXT + 1024 * MIB).values
        assert values == {"got": 4, "refused": 60}


@pytest.mark.parametrize("processes,threads", [(1, 4), (4, 1), (4, 4)])
def test_one_after_the_other(place, processes, threads):
    """There is room for one piece, and everybody takes it and gives it back again and again."""
    values = place.run("process", "contend", processes, threads, 64,
                       RATION_MEM=processes * CONTEXT + 64 * MIB).values
    assert values["got"] > 0 and values["got"] + values["refused"] == processes * threads * (1000 if SANITIZED else 3000)


# field fault 18: contexts were not counted, so ten tenants used ten contexts more
def test_the_sum_of_the_tenants(place):
    tenants = []
    for i in range(3):
        place.settings["RATION_REGION"] = place.folder / f"region{i}"
        tenants.append(place.start("quota", "exact", "alloc", BLOCK, RATION_MEM="128m"))
    for tenant in tenants:
        tenant.await_word("full")
    assert sum(place.truth().values()) == 3 * 128 * MIB
    for tenant in tenants:
        tenant.go().await_word("empty").go().end()


# field fault 6: a free of what it did not know was refused, with -1
def test_frees_that_are_none(place):
    ours = place.run("quota", "frees", RATION_MEM=LIMIT)
    assert ours.lines == place.run("quota", "frees", preload=()).lines
    assert "again 1" in ours.lines


# field fault 6: so was one of what the driver knows and the library does not
@pytest.mark.parametrize("what", ["unseen", "external"])
def test_frees_of_what_no_hook_gave(place, what):
    place.run("quota", "unknown", what, RATION_MEM=LIMIT)


# field fault 97
@pytest.mark.parametrize("limit", [LIMIT, None])
def test_odd_arguments(place, limit):
    ours = place.run("quota", "odd", RATION_MEM=limit)
    assert ours.lines == place.run("quota", "odd", preload=()).lines
    if limit is None:
        assert place.charged() == CONTEXT


# field fault 9: a free was taken off the device that was current
def test_memory_of_another_device(place):
    place.sim["count"] = 2
    place.run("quota", "other-device", RATION_MEM=LIMIT)


# Every call that a hook makes, and what the hook's caller sees fail.
FAULTS = ["cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceTotalMem", "cuDeviceGetUuid",
          "cuCtxGetDevice", "cuCtxGetCurrent", "cuDevicePrimaryCtxRetain", "cuCtxCreate",
          "cuDevicePrimaryCtxGetState", "cuDevicePrimaryCtxRelease", "cuCtxDestroy", "cuMemAlloc",
          "cuMemAllocPitch", "cuMemAllocManaged", "cuMemFree", "cuMemCreate", "cuMemRelease",
          "cuMemMap", "cuMemUnmap", "cuMemAddressReserve", "cuModuleLoadData", "cuModuleUnload"]


@pytest.mark.parametrize("call", FAULTS)
def test_a_call_that_fails(place, call):
    """Nothing is left charged, whichever call of the driver fails, and whenever."""
    for nth, code in itertools.product((1, 2, 3), (OUT_OF_MEMORY, 999)):
        place.region.unlink(missing_ok=True)
        program = place.start("quota", "faults", RATION_MEM="512m",
                              RATION_SIM_FAULT=f"{call}:{nth}={code}", RATION_LOG="error")
        if call in ("cuDeviceGetCount", "cuDeviceGet") and nth == 1:
            # The library could not see the devices: it has said so, and gives nothing.
            assert "devices" in program.await_word("refused").go().end().err
            continue
        program.await_word("look").go()
        assert program.end().err == ""
        assert all(used == 0 for used in place.slots().values())


def test_what_could_not_be_freed_stays_charged(place):
    ends = ["cuMemFree_v2:1", "cuMemFree_v2:3", "cuMemRelease:1", "cuMemRelease:3", "cuMemUnmap:1",
            "cuModuleUnload:1", "cuCtxDestroy_v2:1", "cuDevicePrimaryCtxRelease_v2:1"]
    place.run("quota", "failed", RATION_MEM="512m",
              RATION_SIM_FAULT=",".join(f"{end}=999" for end in ends))


@pytest.mark.plain
def test_no_memory_for_ourselves(place):
    """malloc fails at its nth call, for every n: an answer of CUDA's, never a crash."""
    place.run("starve", preload=[library("flaky"), LIBRARY], RATION_MEM="512m")


# field fault 26: refused for the charges of dead processes
def test_what_a_killed_process_held(place):
    place.settings["RATION_MEM"] = "256m"
    for _ in range(3):
        place.run("process", "kill-me", status=-9)
    program = place.start("quota", "hold", 128).await_word("held")
    program.kill()
    assert place.charged() >= CONTEXT + 128 * MIB
    second = place.start("quota", "exact", "alloc", 192 * MIB).await_word("full")
    assert place.charged() == LIMIT and list(place.slots()) == [second.pid]
    assert second.go().await_word("empty").go().end().values["pieces"] == 1


def test_what_a_killed_neighbour_held(place):
    """The living get it with their next allocation, if their worker has not taken it back before."""
    place.settings["RATION_MEM"] = "512m"
    program = place.start("quota", "rest").await_word("held")
    place.run("process", "kill-me", status=-9)
    assert place.charged() in (2 * CONTEXT + 110 * MIB, CONTEXT + 10 * MIB)
    program.go().await_word("full")
    assert place.slots() == {program.pid: 512 * MIB}
    program.go().end()


def test_a_device_that_is_really_full(place):
    """Under the limit, and the card has no more: the driver's answer, and no charge for it."""
    place.sim["mem"] = "160m"
    program = place.start("quota", "exact", "alloc", 32 * MIB, RATION_MEM="1g").await_word("full")
    assert place.charged() == 160 * MIB == sum(place.truth().values())
    assert program.go().await_word("empty").go().end().values["pieces"] == 3


@pytest.mark.parametrize("kind,level,lines", [
    ("alloc", "warn", 2), ("pitch", "warn", 2), ("vmm", "warn", 2), ("alloc", "error", 0),
])
def test_what_the_card_has_no_room_for_is_said(place, kind, level, lines):
    """Below the limit, since another tenant holds a part of the card. One line for each refusal."""
    place.sim["mem"] = "512m"
    other = place.start("quota", "hold", 64, RATION_REGION=place.folder / "other").await_word("held")
    program = place.start("quota", "exact", kind, 32 * MIB, RATION_MEM="480m", RATION_LOG=level)
    err = program.await_word("full").go().await_word("empty").go().end().err.splitlines()
    assert len(err) == lines
    for line in err:
        assert line.endswith("): 32 MiB refused: the card has no room for it (0 B are free)")
    other.go().end()


def test_refusals_of_a_full_card_do_not_flood(place):
    place.sim["mem"] = "160m"
    done = place.run("quota", "refusals", 100, RATION_LOG="warn", err=None)
    assert 1 <= done.err.count("the card has no room for it") <= 20


# field fault 84, 87: no limit at all
def test_without_a_limit(place):
    program = place.start("quota", "hold", 500).await_word("held")
    assert place.charged() == CONTEXT + 500 * MIB and place.limit() == 0
    program.go().end()


@pytest.mark.parametrize("way", ["unlinked", "replaced"])
def test_a_region_that_who_comes_next_does_not_find(place, way):
    """Beside a second region the limit would be there twice."""
    program = place.start("quota", "lost", RATION_MEM=512 * MIB).await_word("held")
    if way == "unlinked":
        place.region.unlink()
    else:
        place.region.rename(place.folder / "moved")
        place.run("quota", "use", RATION_MEM=512 * MIB)
    assert "somebody cleared, removed or replaced it" in program.go().end().err


def test_a_search_for_the_own_row_refuses_nobody(place):
    """What another process holds to find itself in NVML's list is only held for a moment."""
    place.sim["pids"] = "host"
    place.settings["RATION_MEM"] = 512 * MIB
    program = place.start("quota", "fits", 4000).await_word("ready").go()
    for _ in range(5 if SANITIZED else 25):
        place.run("context", "untouched", err=None)
    program.end()
