"""A limit of GPU time: what is held, what goes on, and what the monitor asks for."""
import shutil
import signal
import struct
import subprocess
import time

import pytest

from conftest import BUILD

# include/ration/region.h
SM_LIMIT, UTILIZATION_SWITCH, RECENT_KERNEL = 1728, 2008900, 2008904


@pytest.fixture(name="limited")
def make_limited(place):
    place.settings.update(RATION_MEM="1g", RATION_SM="20")
    return place


def poke(place, at, fmt, value):
    with open(place.region, "r+b") as f:
        f.seek(at)
        f.write(struct.pack(fmt, value))


def limit(place, spec):
    done = subprocess.run([BUILD / "ration", "limit", place.region, "--sm", spec],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# The worker frees a thread's part once the kernel no longer knows it: an order that no sanitizer sees.
THREADS = pytest.param("threads", marks=pytest.mark.plain)


@pytest.mark.parametrize("case", ["forms", "capture", "ends", THREADS])
def test_programs_go_on(limited, case):
    limited.run("share", case)
    assert limited.slots() == {}


@pytest.mark.parametrize("case", ["forms", "capture", "ends", THREADS])
@pytest.mark.parametrize("version", ["11.4", pytest.param("12.4", marks=pytest.mark.plain)])
def test_programs_go_on_with_older_drivers(limited, case, version):
    """Before 12.5 there is no event of a whole context, before 12.0 no identity of a stream."""
    limited.sim["driver"] = version
    limited.run("share", case)


@pytest.mark.parametrize("version", [None, "12.4"])
def test_processes_at_once(limited, version):
    """Held and in each other's way, they mark where their launches begin: all of them get there."""
    if version:
        limited.sim["driver"] = version
    programs = [limited.start("share", "busy", "50000") for _ in range(3)]
    for program in programs:
        program.await_word("launched 1")
    for program in programs:
        program.await_word("done")
    for program in programs:
        program.go().end()
    assert limited.slots() == {}


@pytest.mark.parametrize("limit_pct", ["20", "2"])
def test_launches_on_two_devices_at_once(limited, limit_pct):
    limited.sim["count"] = 2
    limited.settings["RATION_SM"] = limit_pct
    limited.run("share", "both", timeout=100)


@pytest.mark.plain
@pytest.mark.parametrize("version", [None, "12.4"])
def test_what_a_stream_waits_for_is_not_owed(limited, version):
    """Counted, each second would be paid for with a hundred."""
    if version:
        limited.sim["driver"] = version
    limited.sim["count"] = 2
    limited.settings["RATION_SM"] = "1"
    program = limited.start("share", "waits")
    for what in ("function", "callback", "value", "event"):
        program.await_word(f"{what} 1", timeout=30)
    program.end()


def owing(place, case="held", form="kernel"):
    """A process of the tenant that owes for a launch and is held at the next."""
    program = place.start("share", case, form).await_word("first")
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
                                  "cooperative_ptsz", "graph", "graph_ptsz"])
def test_who_owes_is_held(limited, form):
    owing(limited, form=form)


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
