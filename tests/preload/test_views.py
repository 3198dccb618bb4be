"""What is told of the device's memory is the tenant's share, and one story everywhere."""
import re
import sys

import pytest

from conftest import BUILD, CONTEXT, LIBRARY, MIB, PROGRAMS

UUIDS = [f"GPU-0000000{i}-1111-2222-3333-444444444444" for i in range(4)]


def check_one_story(values, total, used):
    free = max(total - used, 0)
    assert values["info.total"] == values["total"] == values["nvml1.total"] == total
    assert values["nvml2.total"] == values["nvml1.total"] and values["nvml2.reserved"] == 0
    assert values["info.free"] == values["nvml1.free"] == values["nvml2.free"] == free
    assert values["nvml1.used"] == values["nvml2.used"] == total - free
    assert values["total1"] == min(total, 2**32 - 1)


@pytest.mark.parametrize("limit,take", [(256, 0), (256, 100), (256, 192), (5000, 100), (64, 0)])
def test_one_story(place, limit, take):
    program = place.start("views", "all", take, RATION_MEM=f"{limit}m").await_word("said")
    values = program.go().end().values
    check_one_story(values, limit * MIB, CONTEXT + take * MIB)


def test_other_processes_of_the_tenant_count(place):
    place.settings["RATION_MEM"] = "512m"
    other = place.start("quota", "hold", 50).await_word("held")
    program = place.start("views", "all", 100).await_word("said")
    values = program.go().end().values
    check_one_story(values, 512 * MIB, 2 * CONTEXT + 150 * MIB)
    other.go().end()


def test_what_a_dead_process_held_is_free(place):
    """In the very first look after its end, by NVML alone and by the driver."""
    place.settings["RATION_MEM"] = "512m"
    place.run("process", "kill-me", status=-9)
    assert place.charged() == CONTEXT + 100 * MIB
    assert place.run("views", "nvml").values["nvml1.used"] == 0
    place.run("process", "kill-me", status=-9)
    values = place.start("views", "all", 10).await_word("said").go().end().values
    check_one_story(values, 512 * MIB, CONTEXT + 10 * MIB)


def test_what_is_free_can_be_had(place):
    place.run("views", "free", RATION_MEM=CONTEXT + 64 * MIB)


def test_what_is_free_is_no_more_than_the_card_has(place):
    """Another tenant holds a part of it: what is said to be free can still be had."""
    place.sim["mem"] = "512m"
    other = place.start("quota", "hold", 200, RATION_REGION=place.folder / "other")
    other.await_word("held")
    place.run("views", "free", RATION_MEM="400m")
    other.go().end()


@pytest.mark.parametrize("limit,free", [("400m", 192), ("100m", 36), ("200m", 136)])
def test_looks_that_follow_at_once(place, limit, free):
    """Also where the driver need not be asked, because the card has more than the limit left."""
    place.sim["mem"] = "512m"
    other = place.start("quota", "hold", 256 - 64, RATION_REGION=place.folder / "other")
    other.await_word("held")
    assert place.run("views", "tight", RATION_MEM=limit).values["free"] == free * MIB
    other.go().end()


def test_a_child_of_a_process_that_only_looked(place):
    place.sim["count"] = 2
    program = place.start("views", "view-fork", RATION_MEM="256m").await_word("held")
    assert list(place.slots()) == [program.pid]
    program.go().end()


def test_without_a_limit_it_is_the_card(place):
    ours = place.start("views", "all", 100).await_word("said").go().end().values
    plain = place.start("views", "all", 100, preload=()).await_word("said").go().end().values
    assert ours == plain


def test_a_limit_above_the_card(place):
    """The card's size holds; the operator is told, where warnings are asked for."""
    place.sim["mem"] = "1g"
    done = place.start("views", "all", 100, RATION_MEM="8g").await_word("said").go().end()
    assert done.values["info.total"] == 1024 * MIB and done.err == ""
    done = place.start("views", "all", 100, RATION_MEM="8g", RATION_LOG="warn")
    done = done.await_word("said").go().end()
    assert "8192 MiB for device 0 is more than its 1024 MiB" in done.err


# field fault 16: a total that is more than the card can give
@pytest.mark.parametrize("limit", ["1100m", "1536m", "8g"])
def test_a_limit_between_what_the_driver_gives_and_what_nvml_counts(place, limit):
    """NVML counts what the driver keeps for itself; the tenant's total is what can be had."""
    place.sim.update(mem="1g", reserved="512m")
    program = place.start("views", "all", 100, RATION_MEM=limit).await_word("said")
    looker = place.run("views", "nvml", RATION_MEM=limit).values
    assert looker["nvml1.total"] == looker["nvml2.total"] == 1024 * MIB
    check_one_story(program.go().end().values, 1024 * MIB, CONTEXT + 100 * MIB)


# field fault 13: "17592186044134 MiB", and a wrong error where the use was above the limit
# field fault 14
def test_a_limit_that_shrinks_below_the_use(place):
    program = place.start("views", "shrunk", RATION_MEM="512m").await_word("held")
    place.set_limit(100 * MIB)
    program.go().await_word("freed")
    check_one_story(values_of(program), 100 * MIB, CONTEXT + 128 * MIB)
    place.set_limit(512 * MIB)
    values = program.go().end().values
    check_one_story(values, 512 * MIB, CONTEXT)


def values_of(program):
    return {m[1]: int(m[2]) for m in re.finditer(r"^(\S+) (\d+)$", "\n".join(program.said), re.M)}


# field fault 97: cuMemGetInfo(NULL, &total) crashed
# field fault 105: the driver's own error is passed on
@pytest.mark.parametrize("limit", ["256m", None])
def test_odd_arguments(place, limit):
    assert place.run("views", "odd", RATION_MEM=limit).lines == \
        place.run("views", "odd", preload=()).lines


# field fault 127: lines of the library in the output of tools that are parsed
def test_nvml_alone(place):
    """As nvidia-smi: no driver, no slot, nothing written; the limit is shown."""
    done = place.run("views", "nvml", RATION_MEM="256m")
    assert done.values["nvml1.total"] == done.values["nvml2.total"] == 256 * MIB
    assert done.values["nvml1.used"] == done.values["nvml2.used"] == 0
    assert place.slots() == {}
    plain = place.run("views", "nvml", preload=()).values
    assert plain["nvml2.total"] == 8704 * MIB and plain["nvml2.reserved"] == 512 * MIB


# NVML calls its own functions by their exported names
def test_what_nvml_asks_of_itself_is_the_truth(place):
    place.settings["LD_LIBRARY_PATH"] = f"{PROGRAMS / 'nested'}:{BUILD / 'sim'}"
    done = place.run("views", "nested", RATION_MEM="1k")
    assert done.values["inner.total"] == done.values["found.total"] == 4000
    assert done.values["inner.processes"] == 2 and done.values["processes"] == 0
    assert done.values["inner.window"] == 8000
    assert done.values["found.own"] == 1
    assert done.values["nvml1.total"] == done.values["nvml2.total"] == 1024
    assert place.run("views", "nested", preload=()).values["nvml1.total"] == 4000


@pytest.mark.plain
def test_nvidia_ml_py(place):
    """NVML from Python, by dlopen and dlsym."""
    pytest.importorskip("pynvml")
    script = """
import pynvml as n
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
print(n.nvmlDeviceGetMemoryInfo(h).total >> 20)
print(n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2).total >> 20)
"""
    assert place.run(sys.executable, "-c", script, RATION_MEM="256m").lines == ["256", "256"]


def devices(place, **settings):
    """{UUID: (total in MiB, pieces of 64 MiB it gave)} in the order of the ordinals."""
    place.sim.update(count=4, mem="4g", uuid="/".join(UUIDS))
    found = {}
    for line in place.run("views", "devices", **settings).lines:
        h, total, pieces = line.split()
        uuid = f"GPU-{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"
        found[uuid] = (int(total), int(pieces))
    return found


def wanted(limits, order):
    """Of these limits in MiB, a context is one piece."""
    return {UUIDS[i]: (limits[i], limits[i] // 64 - 1) for i in order}


LIMITS = [256, 512, 768, 1024]
BY_INDEX = ",".join(f"{i}:{limit}m" for i, limit in enumerate(LIMITS))
BY_UUID = ",".join(f"{uuid}:{limit}m" for uuid, limit in zip(UUIDS, LIMITS))


# field fault 1: with a subset of the devices the limit was never looked up
# field faults 3, 57, 102, 115, 164: a permuted, cut, doubled or unreadable list
@pytest.mark.parametrize("spec", [BY_INDEX, BY_UUID])
@pytest.mark.parametrize("visible,order", [
    (None, [0, 1, 2, 3]), ("1", [1]), ("3,1", [3, 1]), ("2,0,1,3", [2, 0, 1, 3]),
    (UUIDS[2], [2]), (f"{UUIDS[3]},{UUIDS[0]}", [3, 0]), ("GPU-00000001", [1]),
    ("0,99,1", [0]), ("1,-1,2", [1]), ("2,x", [2]),
    (",".join(map(str, range(18))), [0, 1, 2, 3]),
])
def test_visible_devices(place, spec, visible, order):
    found = devices(place, RATION_MEM=spec, CUDA_VISIBLE_DEVICES=visible)
    assert found == wanted(LIMITS, order) and list(found) == [UUIDS[i] for i in order]


@pytest.mark.parametrize("visible", ["", "-1", "0,0", "x", "MIG-1"])
def test_no_visible_device(place, visible):
    """cuInit answers what it answers without us."""
    place.sim["count"] = 4
    for preload in ((), (LIBRARY,)):
        done = place.run("context", "untouched", preload=preload, status=1, err=None,
                         RATION_MEM=BY_INDEX, CUDA_VISIBLE_DEVICES=visible)
        assert "cuInit(0): 100, not 0" in done.err and done.err.count("\n") == 1


def test_hami_s_variables(place):
    """CUDA_DEVICE_MEMORY_LIMIT_<i> means the i-th of NVIDIA_VISIBLE_DEVICES, when those are UUIDs."""
    region = {"RATION_REGION": None, "CUDA_DEVICE_MEMORY_SHARED_CACHE": place.folder / "hami.cache"}
    found = devices(place, **region, NVIDIA_VISIBLE_DEVICES=f"{UUIDS[2]},{UUIDS[0]}",
                    CUDA_DEVICE_MEMORY_LIMIT_0="256m", CUDA_DEVICE_MEMORY_LIMIT_1="512m",
                    CUDA_DEVICE_MEMORY_LIMIT="128m")
    assert found == wanted([512, 128, 256, 128], [0, 1, 2, 3])


@pytest.mark.parametrize("settings,limits", [
    ({"CUDA_DEVICE_MEMORY_LIMIT": "256m"}, [256] * 4),
    ({"CUDA_DEVICE_MEMORY_LIMIT": "0", "CUDA_DEVICE_MEMORY_LIMIT_1": "512M"}, [4096, 512, 4096, 4096]),
    ({"CUDA_DEVICE_MEMORY_LIMIT_0": "268435456", "CUDA_DEVICE_MEMORY_LIMIT": "1G"},
     [256, 1024, 1024, 1024]),
    ({"CUDA_DEVICE_MEMORY_LIMIT_3": "1.5g", "CUDA_DEVICE_MEMORY_LIMIT": "1g",
      "NVIDIA_VISIBLE_DEVICES": "all"}, [1024, 1024, 1024, 1536]),
])
def test_hami_s_sizes(place, settings, limits):
    place.settings.update(RATION_REGION=None,
                          CUDA_DEVICE_MEMORY_SHARED_CACHE=place.folder / "hami.cache")
    assert devices(place, **settings) == wanted(limits, range(4))


def test_more_devices_than_hami_s_layout_has(place):
    """field fault 102: 18 devices; those past the 16th are limited like the others."""
    place.sim.update(count=18, mem="1g")
    lines = place.run("views", "devices", RATION_MEM="0:256m,17:128m,512m").lines
    assert [line.split()[1] for line in lines] == ["256"] + ["512"] * 16 + ["128"]
    assert [line.split()[2] for line in lines] == ["3"] + ["7"] * 16 + ["1"]


# field fault 102
def test_32_devices(place):
    """As many as a region has; of a list that names them all backwards, with more names than devices."""
    place.sim.update(count=32, mem="1g")
    spec = ",".join(f"{i}:{128 + 2 * i}m" for i in range(32))
    order = list(range(31, -1, -1))
    visible = ",".join(map(str, order + [99, 5]))
    lines = place.run("views", "devices", RATION_MEM=spec, CUDA_VISIBLE_DEVICES=visible).lines
    assert [int(line.split()[1]) for line in lines] == [128 + 2 * i for i in order]
    # A context of 64 MiB is the first piece.
    assert [int(line.split()[2]) for line in lines] == [(128 + 2 * i) // 64 - 1 for i in order]


def test_more_devices_than_a_region_has(place):
    """Those that a process sees have room; more of them are refused in words, and none goes unlimited."""
    place.sim.update(count=40, mem="1g")
    done = place.run("context", "untouched", status=1, err=None, RATION_MEM="256m")
    assert "devices" in done.err.splitlines()[0] and "cuInit(0): " in done.err
    lines = place.run("views", "devices", RATION_MEM="256m", CUDA_VISIBLE_DEVICES="39,38,3").lines
    assert [line.split()[1:] for line in lines] == [["256", "3"]] * 3


def test_nvml_where_the_region_cannot_be_opened(place):
    """The card is not the tenant's: what is configured is shown, or nothing."""
    place.settings["RATION_REGION"] = place.folder / "nowhere" / "region"
    place.settings["RATION_MEM"] = "1:256m,512m"
    assert place.run("views", "nvml", err=None).values["nvml1.total"] == 512 * MIB
    place.settings["RATION_MEM"] = "0:256m,512m"
    assert place.run("views", "nvml", err=None).values["nvml1.total"] == 256 * MIB
    assert place.run("views", "nvml", err=None).values["nvml2.reserved"] == 0
    del place.settings["RATION_MEM"]
    place.run("views", "nvml", status=1, err="nvmlDeviceGetMemoryInfo")
