"""A limit of GPU time: what is held, what goes on, and what the monitor asks for."""
import select
import shutil
import signal
import struct
import subprocess
import time

import pytest

from conftest import BUILD, HAMI_PROC_BYTES, HAMI_PROCS

# include/ration/region.h
SM_LIMIT, UTILIZATION_SWITCH, RECENT_KERNEL = 1728, 2008900, 2008904


def poke(place, at, fmt, value):
    with open(place.region, "r+b") as f:
        f.seek(at)
        f.write(struct.pack(fmt, value))


def limit(place, spec):
    done = subprocess.run([BUILD / "ration", "limit", place.region, "--sm", spec],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def owing(place, *case):
    """A process of the tenant that owes for a launch and is held at the next."""
    program = place.start("share", *(case or ["held"])).await_word("first")
    limit(place, "1")  # 100 ms at 1 % is held for ten seconds
    program.go().await_word("owes")
    program.go()
    with pytest.raises(pytest.fail.Exception):
        program.await_word("passed", timeout=0.5)
    return program


def test_a_hold_ends_with_the_limit(limited):
    """The held program is killed by await_word() when its word does not come: a new one each time."""
    program = limited.start("share", "held").await_word("first")
    limit(limited, "1")
    program.go().await_word("owes")
    program.go()
    time.sleep(0.3)
    assert program.popen.poll() is None
    limit(limited, "100")
    program.await_word("passed")
    program.go().end()


@pytest.mark.parametrize("form", ["kernel", "kernel_ptsz", "ex", "ex_ptsz", "cooperative",
                                  "cooperative_ptsz", "multi", "graph", "graph_ptsz", "launch",
                                  "grid", "grid_async"])
def test_who_owes_is_held(limited, form):
    owing(limited, "held", form)


# field fault 57: another device's use was taken for that of one's own
@pytest.mark.plain
@pytest.mark.parametrize("visible", ["1", "1,0", "1,2"])
@pytest.mark.parametrize("limited_device,holds", [(1, True), (0, False), (2, False)])
def test_who_owes_is_held_on_the_device_that_is_limited(place, visible, limited_device, holds):
    """Its first device is card 1, whatever number that has for it; NVML has card 1 second."""
    place.sim["count"] = 3
    place.settings.update(RATION_MEM="1g", RATION_SM=f"{limited_device}:1", CUDA_VISIBLE_DEVICES=visible)
    program = place.start("share", "held").await_word("first").go().await_word("owes").go()
    if holds:
        assert not select.select([program.popen.stdout], [], [], 0.5)[0]
        limit(place, "100")  # it was held, and is no more
        program.await_word("passed")
    else:
        program.await_word("passed").go().end()


@pytest.mark.plain
@pytest.mark.parametrize("device, limited_device, holds", [(0, 0, True), (1, 1, True), (1, 0, False), (0, 1, False)])
def test_who_owes_is_held_where_the_stream_is(place, device, limited_device, holds):
    """Its context is another one than the current, which is of device 0."""
    place.sim["count"] = 2
    place.settings.update(RATION_MEM="1g", RATION_SM=f"{limited_device}:1")
    program = place.start("share", "elsewhere", device).await_word("first").go().await_word("owes").go()
    if holds:
        assert not select.select([program.popen.stdout], [], [], 0.5)[0]
        limit(place, "100")
    program.await_word("passed").go().end()


def test_a_child_that_owes_is_held(limited):
    program = owing(limited, "forked")
    assert program.popen.poll() is not None


def test_who_owes_is_held_where_there_is_no_nvml(limited):
    """Time is measured by the driver's events alone."""
    folder = limited.folder / "driver"
    folder.mkdir()
    shutil.copy(BUILD / "sim" / "libcuda.so.1", folder)
    limited.settings["LD_LIBRARY_PATH"] = folder
    owing(limited)


@pytest.mark.plain
def test_a_launch_without_a_limit_asks_the_system_for_nothing(place):
    place.settings.update(RATION_MEM="1g",
                          LD_LIBRARY_PATH=f"{BUILD / 'preload' / 'steady'}:{BUILD / 'sim'}")
    place.run("hot", "launches")
    # The kernel does end it for a system call.
    place.run("hot", "reads", status=-signal.SIGSYS)


# field faults 155 and 158: each call read files, or the environment, or waited for a file's lock
@pytest.mark.plain
@pytest.mark.parametrize("limit", ["1g", None])
def test_an_allocation_touches_no_file(place, limit):
    place.settings.update(RATION_MEM=limit,
                          LD_LIBRARY_PATH=f"{BUILD / 'preload' / 'steady'}:{BUILD / 'sim'}")
    place.run("hot", "allocations")


@pytest.mark.parametrize("how", ["detached", "green", "kept"])
def test_who_owes_is_held_after_many_contexts(limited, how):
    """What is kept of a context goes with it, whichever call ends it; there is room for many."""
    limited.settings["RATION_SM"] = "90"
    limited.sim["context"] = "2m"
    owing(limited, "worn", how)


@pytest.mark.parametrize("how", ["waited", "left", "captured"])
@pytest.mark.parametrize("version", [None, pytest.param("12.4", marks=pytest.mark.plain)])
def test_who_owes_is_held_after_many_streams(limited, how, version):
    """There is room for the next, and what a stream had under way when it ended is measured as ever."""
    limited.settings["RATION_SM"] = "90"
    if version:
        limited.sim["driver"] = version
    owing(limited, "wear", how)


def test_a_monitor_holds_and_lets_go(place):
    """HAMi's recent_kernel: negative holds every launch, also without any limit of time."""
    place.settings["RATION_MEM"] = "1g"
    first = place.start("share", "held").await_word("first")
    assert place.words(RECENT_KERNEL, "i")[0] == 2
    poke(place, RECENT_KERNEL, "i", -1)
    second = place.start("share", "held")
    time.sleep(0.3)
    assert second.popen.poll() is None and not second.said
    assert place.words(RECENT_KERNEL, "i")[0] == -1
    poke(place, RECENT_KERNEL, "i", 0)
    second.await_word("first")
    for program in (first, second):
        program.kill()


def test_the_monitor_is_told_of_launches(place):
    place.settings["RATION_MEM"] = "1g"
    program = place.start("share", "held").await_word("first")
    poke(place, RECENT_KERNEL, "i", 0)
    program.go().await_word("owes")
    deadline = time.monotonic() + 30
    while place.words(RECENT_KERNEL, "i")[0] != 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    program.kill()


def await_use(place, slot, device, is_right):
    """The percentage that HAMi's monitors read of a slot and a device."""
    at = HAMI_PROCS + HAMI_PROC_BYTES * slot + 1160 + 48 * device + 16
    deadline = time.monotonic() + 30
    while True:
        pct = place.words(at, "Q")[0]
        assert pct <= 100
        if is_right(pct):
            return
        assert time.monotonic() < deadline, pct
        time.sleep(0.05)


# field faults 119 and 120: the use that monitors showed was always 0, or never 0 again
@pytest.mark.plain
@pytest.mark.parametrize("visible, pct, launch_ns", [
    ("0,1", None, 20000000), ("1,0", "100", 20000000), ("1,0", "30", 10000000)])
def test_the_monitor_reads_how_busy_a_device_is(place, visible, pct, launch_ns):
    """With a limit of GPU time, by what is measured; without one, by what NVML says."""
    place.sim["count"] = 2
    place.settings.update(RATION_MEM="1g", RATION_SM=pct, CUDA_VISIBLE_DEVICES=visible)
    device = int(visible[0])
    program = place.start("share", "busy", launch_ns).await_word("launched 1")
    await_use(place, 0, device, lambda pct: pct > 10)
    await_use(place, 0, 1 - device, lambda pct: pct == 0)
    # It lives on and does nothing.
    program.await_word("done")
    await_use(place, 0, device, lambda pct: pct == 0)
    program.go().end()


def test_the_monitor_reads_nothing_of_a_dead_process(place):
    place.settings["RATION_MEM"] = "1g"
    program = place.start("nvml_views", "busy").await_word("busy")
    await_use(place, 0, 0, lambda pct: pct > 10)
    program.kill()
    place.run("quota", "use")
    await_use(place, 0, 0, lambda pct: pct == 0)


@pytest.mark.parametrize("policy, switch, holds", [
    (None, 1, True), (None, 0, False), ("force", 0, True), ("disable", 1, False)])
def test_hami_s_policies(place, policy, switch, holds):
    """The word of the device and the monitor's switch, as GPU_CORE_UTILIZATION_POLICY says."""
    place.settings.update(RATION_REGION=None, CUDA_DEVICE_MEMORY_LIMIT="1g", CUDA_DEVICE_SM_LIMIT="1",
                          CUDA_DEVICE_MEMORY_SHARED_CACHE=place.region,
                          GPU_CORE_UTILIZATION_POLICY=policy)
    program = place.start("share", "held").await_word("first")
    poke(place, UTILIZATION_SWITCH, "i", switch)
    time.sleep(0.3)  # the worker has seen the switch by then
    program.go().await_word("owes")
    program.go()
    if holds:
        with pytest.raises(pytest.fail.Exception):
            program.await_word("passed", timeout=0.5)
    else:
        program.await_word("passed")
        program.go().end()
