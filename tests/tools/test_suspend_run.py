"""`ration suspend` and `ration resume` of programs that work on the software GPU all the while."""

import json
import os
import re
import signal
import subprocess

import pytest
from conftest import BUILD

MIB = 1 << 20
KEEP = BUILD / "examples" / "keep"


class Keeper:
    """examples/keep as a tenant: says how many rounds are done when it is asked."""

    def __init__(self, ration, name, *options, run=(), mem="192m", env=None):
        self.ration, self.name = ration, name
        self.process = ration.start("run", "--movable", "--name", name, f"--sim=mem={mem},context=8m", *run, "--",
                                    KEEP, "--rest", "3", *options, env=env, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout.readline() == "ready\n"

    def rounds(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self):
        out, err = self.process.communicate(timeout=60)
        assert (self.process.returncode, out, err) == (0, "ok\n", "")

    def seen(self):
        tenants = json.loads(self.ration("ps", "--json").stdout)["tenants"]
        return next(t for t in tenants
                    if t["path"].startswith(f"{self.ration.directory}/{self.name}.tenant/"))["processes"][0]

    def status(self):
        """What HAMi's monitors read: of the first slot, 1 running, 2 suspended."""
        image = self.ration.region(self.name).read_bytes()
        return int.from_bytes(image[1856 + 1928:1856 + 1932], "little")


@pytest.fixture
def keeper(ration, sim):
    started = []

    def start(*args, **kwargs):
        started.append(Keeper(ration, *args, **kwargs))
        return started[-1]

    yield start
    for k in started:
        k.process.kill()
        k.process.wait()


def suspend(ration, name):
    done = ration("suspend", name)
    assert done.returncode == 0, done.stdout + done.stderr


def resume(ration, name):
    done = ration("resume", name)
    assert done.returncode == 0, done.stdout + done.stderr


# Two buffers: most of a device of LARGE_MEM.
LARGE, LARGE_MEM = ("--size", "22m", "--threads", "1", "--depth", "1"), "72m"


@pytest.mark.parametrize("options", [("--size", "4m"), ("--size", "4m", "--graph"), ("--size", "100k"),
                                     ("--size", "130m", "--threads", "1", "--depth", "1")],
                         ids=["kernels", "graph", "small", "large"])
def test_memory_leaves_and_comes_back(ration, keeper, eventually, options):
    a = keeper("a", *options, mem="600m")
    eventually(lambda: a.rounds() > 0)
    for _ in range(1 if "130m" in options else 3):
        suspend(ration, "a")
        assert a.status() == 2 and a.seen()["suspended"]
        before = a.rounds()
        assert a.rounds() - before <= 16  # those that had ended, not counted yet
        settled = a.rounds()
        assert a.rounds() == settled
        resume(ration, "a")
        assert a.status() == 1
        eventually(lambda: a.rounds() > settled)
    a.end()


def test_the_device_is_free_for_others_meanwhile(ration, keeper, eventually):
    a = keeper("a", *LARGE, mem=LARGE_MEM)
    suspend(ration, "a")
    # Two of that size do not fit on the device.
    b = keeper("b", *LARGE, mem=LARGE_MEM)
    eventually(lambda: b.rounds() > 0)
    b.end()
    resume(ration, "a")
    settled = a.rounds()
    eventually(lambda: a.rounds() > settled)
    a.end()


def test_where_the_room_was_taken_it_comes_back_over_the_link(ration, keeper, eventually):
    a = keeper("a", *LARGE, mem=LARGE_MEM)
    suspend(ration, "a")
    b = keeper("b", *LARGE, mem=LARGE_MEM)
    resume(ration, "a")
    settled = a.rounds()
    eventually(lambda: a.rounds() > settled)
    a.end()
    b.end()


def test_what_came_back_is_said(ration, keeper):
    """Host memory that is kept at hand for the next time is none of it."""
    a = keeper("a", *LARGE, mem=LARGE_MEM)
    suspend(ration, "a")
    said = re.search(r"runs, (\d+) MiB on the GPU", ration("resume", "a").stdout)
    assert 44 <= int(said[1]) < 72
    a.end()


def test_killed_while_suspended(ration, keeper, eventually):
    a = keeper("a", "--size", "2m", mem=LARGE_MEM)
    suspend(ration, "a")
    seen = a.seen()
    os.kill(seen["pid"], signal.SIGKILL)
    a.process.wait()
    eventually(lambda: not ration.regions())
    b = keeper("b", *LARGE, mem=LARGE_MEM)
    b.end()


@pytest.mark.parametrize("call", ["cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemSetAccess", "cuMemcpyAsync",
                                  "cuStreamQuery", "cuEventQuery", "cuCtxRecordEvent"])
def test_a_call_that_fails_is_made_good(ration, keeper, call):
    """The bytes are whole, and what was asked for comes to be."""
    first = {"cuMemCreate": 4, "cuMemMap": 4, "cuMemSetAccess": 4, "cuMemUnmap": 2}.get(call, 1)
    for nth in range(first, first + 4):
        name = f"{call.lower()}-{nth}"
        a = keeper(name, "--size", "2m", "--threads", "1", env={"RATION_SIM_FAULT": f"{call}:{nth}=2"})
        for _ in range(2):
            suspend(ration, name)
            resume(ration, name)
        a.end()


def test_asked_again_and_again(ration, keeper):
    a = keeper("a", "--size", "2m")
    for _ in range(10):
        suspend(ration, "a")
        resume(ration, "a")
    a.end()


def test_too_little_host_memory_is_said_and_the_program_goes_on(ration, keeper, eventually):
    a = keeper("a", "--size", "20m", run=("--host", "30m"))
    done = ration("suspend", "a", "--wait", "86400")
    assert done.returncode == 1 and "Cannot allocate memory (no room in host memory" in done.stdout
    assert a.status() == 1
    # Nothing left and came back in vain.
    assert a.seen()["moved_bytes"] == 0
    settled = a.rounds()
    eventually(lambda: a.rounds() > settled)
    resume(ration, "a")
    a.end()


HOST_BYTES_AT = 2011136 + 2304  # struct ration_region, host_bytes


def test_asked_once_more_it_is_tried_at_once(ration, keeper):
    """What was refused, for a reason that is gone by now."""
    a = keeper("a", "--size", "20m", run=("--host", "30m"))
    for _ in range(3):
        # Each attempt that was in vain puts the next one off.
        assert ration("suspend", "a", "--wait", "86400").returncode == 1
    with open(ration.region("a"), "r+b") as f:
        f.seek(HOST_BYTES_AT)
        f.write((1 << 30).to_bytes(8, "little"))
    suspend(ration, "a")
    resume(ration, "a")
    a.end()


def test_a_program_that_ends_while_it_is_suspended(ration, keeper):
    """Its calls wait, its end with them; then all is as if it had not been suspended."""
    a = keeper("a", "--size", "2m")
    suspend(ration, "a")
    a.process.stdin.close()
    resume(ration, "a")
    assert a.process.wait(timeout=60) == 0
    assert a.process.stdout.read() == "ok\n"
