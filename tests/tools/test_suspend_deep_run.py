"""`ration suspend --deep` of programs that work on the software GPU all the while."""

import json
import os
import signal
import subprocess
import sys

import pytest
from conftest import BUILD
from test_suspend_run import LARGE, LARGE_MEM, Keeper, keeper, resume  # noqa: F401

MIB = 1 << 20

# Says the pids that NVML lists on device 0, and what it has free.
LOOK = """
import ctypes, sys
nvml, dev = ctypes.CDLL(sys.argv[1] + "/libnvidia-ml.so.1"), ctypes.c_void_p()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(dev)) == 0
count, rows, memory = ctypes.c_uint(99), (ctypes.c_uint64 * 297)(), (ctypes.c_uint64 * 3)()
assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(dev, ctypes.byref(count), rows) == 0
assert nvml.nvmlDeviceGetMemoryInfo(dev, memory) == 0
print([rows[3 * i] & 0xffffffff for i in range(count.value)], memory[1])
"""


def card(ration, sim):
    """The pids that are listed, and the free bytes."""
    done = subprocess.run([sys.executable, "-c", LOOK, str(sim)], env={**ration.env}, text=True,
                          capture_output=True, check=True)
    pids, free = done.stdout.rsplit(" ", 1)
    return json.loads(pids), int(free)


def deep(ration, name):
    done = ration("suspend", name, "--deep", "--sim")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def resume_all(ration, name):
    done = ration("resume", name, "--sim")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("options, run", [
    (("--size", "4m"), ()),
    (("--size", "4m", "--graph"), ()),
    (("--size", "100k"), ()),
    (("--size", "130m", "--threads", "1", "--depth", "1"), ()),
    (("--size", "20m"), ("--resident", "30m")),
    (("--size", "100k"), ("--resident", "4m")),
    (("--size", "20m"), ("--resident", "30m", "--host", "90m")),
], ids=["kernels", "graph", "small", "large", "oversubscribed", "small-oversubscribed", "bound"])
def test_nothing_is_left_and_all_comes_back(ration, keeper, sim, eventually, options, run):  # noqa: F811
    a = keeper("a", *options, mem="600m", run=run)
    eventually(lambda: a.rounds() > 0)
    pid = a.seen()["pid"]
    for _ in range(1 if "130m" in options else 3):
        out = deep(ration, "a")
        assert out.startswith(f"{pid} keep: off the GPU, ")
        assert card(ration, sim) == ([], 600 * MIB)
        seen = a.seen()
        assert a.status() == 2 and seen["suspended"] and seen["deep"]
        assert seen["devices"][0]["movable_bytes"] == 0 and seen["host_bytes"] > 0
        assert "1 suspended deep" in ration("ps").stdout
        settled = a.rounds()
        assert a.rounds() == settled
        resume_all(ration, "a")
        assert card(ration, sim)[0] == [pid] and a.status() == 1 and not a.seen()["deep"]
        eventually(lambda: a.rounds() > settled)
    a.end()
    assert card(ration, sim)[0] == []


def test_from_suspended_and_back(ration, keeper, sim, eventually):  # noqa: F811
    """With objects that lie in host memory, over the whole way."""
    a = keeper("a", "--size", "20m", mem="600m", run=("--resident", "30m"))
    eventually(lambda: a.rounds() > 0)
    for _ in range(2):
        assert ration("suspend", "a").returncode == 0
        settled = a.rounds()
        deep(ration, "a")
        assert card(ration, sim) == ([], 600 * MIB)
        assert ration("suspend", "a", "--sim").returncode == 0
        assert len(card(ration, sim)[0]) == 1
        deep(ration, "a")
        assert card(ration, sim) == ([], 600 * MIB)
        assert a.rounds() == settled
        resume_all(ration, "a")
        eventually(lambda: a.rounds() > settled)
    a.end()


def test_others_have_the_whole_card_meanwhile(ration, keeper, sim, eventually):  # noqa: F811
    a = keeper("a", *LARGE, mem=LARGE_MEM)
    eventually(lambda: a.rounds() > 0)
    deep(ration, "a")
    # Beside a context it would not fit.
    b = keeper("b", "--size", "30m", "--threads", "1", "--depth", "1", mem=LARGE_MEM)
    settled = a.rounds()
    done = ration("resume", "a", "--sim", "--wait", "1")
    assert done.returncode == 1 and "CUDA_ERROR_OUT_OF_MEMORY" in done.stderr
    assert "not yet" in done.stdout and a.rounds() == settled
    b.end()
    resume_all(ration, "a")
    eventually(lambda: a.rounds() > settled)
    a.end()


def test_killed_while_it_is_away(ration, keeper, sim, eventually):  # noqa: F811
    a = keeper("a", "--size", "2m", mem=LARGE_MEM)
    deep(ration, "a")
    os.kill(a.seen()["pid"], signal.SIGKILL)
    a.process.wait()
    eventually(lambda: not ration.regions())
    assert card(ration, sim)[0] == []
    keeper("b", *LARGE, mem=LARGE_MEM).end()


def test_a_program_that_ends_while_it_is_away(ration, keeper, sim):  # noqa: F811
    a = keeper("a", "--size", "2m")
    deep(ration, "a")
    a.process.stdin.close()
    resume_all(ration, "a")
    assert a.process.wait(timeout=60) == 0
    assert a.process.stdout.read() == "ok\n"


@pytest.mark.parametrize("call", ["cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemSetAccess", "cuMemcpyAsync",
                                  "cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuStreamQuery"])
def test_a_call_that_fails_is_made_good(ration, keeper, sim, call):  # noqa: F811
    """Of what objects leave by: the bytes are whole, and what was asked for comes to be."""
    first = {"cuMemCreate": 4, "cuMemMap": 4, "cuMemSetAccess": 4, "cuMemUnmap": 2}.get(call, 1)
    for nth in range(first, first + 4, 2):
        name = f"{call.lower()}-{nth}"
        a = keeper(name, "--size", "2m", "--threads", "1", env={"RATION_SIM_FAULT": f"{call}:{nth}=2"})
        for _ in range(2):
            deep(ration, name)
            assert card(ration, sim)[0] == []
            resume_all(ration, name)
        a.end()


def test_too_little_host_memory(ration, keeper, sim, eventually):  # noqa: F811
    a = keeper("a", "--size", "20m", run=("--host", "10m"))
    done = ration("suspend", "a", "--deep", "--sim", "--wait", "1")
    assert done.returncode == 1 and "Cannot allocate memory" in done.stdout
    resume(ration, "a")
    settled = a.rounds()
    eventually(lambda: a.rounds() > settled)
    a.end()


def test_asked_again_and_again(ration, keeper, sim):  # noqa: F811
    a = keeper("a", "--size", "2m")
    for _ in range(10):
        deep(ration, "a")
        resume_all(ration, "a")
    a.end()


def test_without_a_driver_nothing_is_asked(ration, keeper, eventually):  # noqa: F811
    a = keeper("a", "--size", "2m")
    done = ration("suspend", "a", "--deep")
    assert done.returncode == 1 and "there is no CUDA driver here" in done.stderr
    settled = a.rounds()
    eventually(lambda: a.rounds() > settled)
    assert "suspended" not in ration("ps").stdout
    a.end()
