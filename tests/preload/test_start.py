"""How processes come to their tenant: in crowds, again after a crash, as other users, in containers."""
import fcntl
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import BUILD, CONTEXT, LIBRARY, MIB, NOT_INITIALIZED, PROGRAMS, is_root, needs

OPERATING_SYSTEM = 304
OFD_SETLK = 37
LOCK_SLOT = 1 << 40
SLOTS = 1024


def lock(f, at, count):
    """A write lock of the open file, as the library takes them: struct flock from the start."""
    fcntl.fcntl(f, OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, at, count, 0))


def allows(*command):
    """Whether the system lets us do it."""
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


# field fault 68: each start waited for all others, or made a context to learn a number
@pytest.mark.plain
def test_many_at_once(place):
    place.settings["RATION_MEM"] = f"{16 * (64 + 2)}m"
    programs = [place.start("quota", "hold", 2) for _ in range(16)]
    for program in programs:
        program.await_word("held")
    assert place.slots() == {program.pid: CONTEXT + 2 * MIB for program in programs} == place.truth()
    for program in programs:
        program.go().end()


# field fault 68: one process more than there are slots
def test_every_slot_is_taken(place):
    """Said in one line, and nothing is waited for; when a slot is free the next process has it."""
    place.settings["RATION_MEM"] = "256m"
    place.run("quota", "use")
    with open(place.region, "r+b") as f:
        lock(f, LOCK_SLOT, SLOTS)
        done = place.run("context", "untouched", status=1, err=None)
        assert f"all {SLOTS} slots are taken by living processes" in done.err.splitlines()[0]
        assert f"cuInit(0): {OPERATING_SYSTEM}, not 0" in done.err
    place.run("quota", "use")


HOLD_LOCK = """
import fcntl, struct, sys, time
f = open(sys.argv[1], "r+b")
fcntl.fcntl(f, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 2008952, 0))
print("locked", flush=True)
sys.stdin.read()
"""


# field fault 66: the holder of a lock was killed and nobody got any further
def test_the_holder_of_the_lock_is_killed(place):
    place.settings["RATION_MEM"] = "1g"
    place.run("quota", "use")
    holder = place.start(sys.executable, "-c", HOLD_LOCK, place.region, preload=())
    holder.await_word("locked")
    waiting = [place.start("quota", "hold", 2) for _ in range(8)]
    holder.kill()
    for program in waiting:
        program.await_word("held")
    assert place.charged() == 8 * (CONTEXT + 2 * MIB) and len(place.slots()) == 8
    for program in waiting:
        program.go().end()


# field faults 69 and 78: whoever came first had the file for himself
@pytest.mark.plain
@pytest.mark.parametrize("mask", ["022", "077"])
@pytest.mark.parametrize("users", [(0, 1234), (1234, 0), (1234, 1235)])
def test_users_of_one_container(open_place, users, mask):
    """In any order, whatever their umask; the limit is for all of them together."""
    needs(is_root() and allows("setpriv", "--version"), "only root can start programs as others")
    place = open_place
    place.settings["RATION_MEM"] = f"{2 * 64 + 50}m"
    programs = []
    for user in users:
        programs.append(place.start("setpriv", f"--reuid={user}", "--clear-groups", "/bin/sh", "-c",
                                    f"umask {mask}; exec {PROGRAMS}/quota hold 20"))
        programs[-1].await_word("held")
    assert place.charged() == 2 * CONTEXT + 40 * MIB and place.region.stat().st_mode & 0o777 == 0o666
    for user in users:
        place.run("setpriv", f"--reuid={user}", "--clear-groups", PROGRAMS / "quota", "hold", 1,
                  status=1, err="a context needs 64 MiB")
    for program in programs:
        program.go().end()


@pytest.mark.plain
def test_a_read_only_root(place):
    """The region on a file system of its own works; where none can be made, a limit is not dropped."""
    needs(is_root() and allows("unshare", "-m", "true"), "mounting is not allowed here")
    (place.folder / "run").mkdir()
    # Somebody may be about to end who has a file open for writing: then the root is busy.
    script = (f"mount -t tmpfs none {place.folder}/run && "
              "for i in 1 2 3 4 5 6 7 8 9; do mount -o remount,bind,ro / 2>/dev/null && break; sleep 0.1; done; "
              f"touch {place.folder}/x 2>/dev/null && exit 77; "
              f"RATION_REGION={place.folder}/run/region {PROGRAMS}/quota use && echo used && "
              f"{PROGRAMS}/context untouched")
    done = place.run("unshare", "-m", "/bin/sh", "-c", script, status=None, err=None, RATION_MEM="256m")
    needs(done.status != 77 and "mount:" not in done.err, f"the root cannot be made read-only {done.err}")
    assert (done.status, done.lines) == (1, ["used"])
    assert f"region {place.region}" in done.err and "Read-only file system" in done.err
    assert f"cuInit(0): {OPERATING_SYSTEM}, not 0" in done.err


CONTAINER = ["unshare", "-pf", "--mount-proc", "--kill-child"]


def needs_containers():
    needs(is_root() and allows(*CONTAINER, "true"), "no pid namespace can be made here")


@pytest.mark.plain
def test_a_container_that_comes_again(place):
    """The next one finds the file of the one that was killed, and its processes have the same pids."""
    needs_containers()
    place.settings["RATION_MEM"] = CONTEXT + 100 * MIB
    for _ in range(3):
        container = place.start(*CONTAINER, PROGRAMS / "quota", "hold", 90).await_word("held")
        assert place.slots() == {1: CONTEXT + 90 * MIB} and place.charged() == CONTEXT + 90 * MIB
        (first,) = Path(f"/proc/{container.pid}/task/{container.pid}/children").read_text().split()
        os.kill(int(first), signal.SIGKILL)
        container.popen.wait()
    assert place.run("views", "nvml").values["nvml1.used"] == 0


REUSE = """
import os, subprocess, sys

def hold(mib=90):
    program = subprocess.Popen([sys.argv[1], "hold", str(mib)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env={**os.environ, "LD_PRELOAD": sys.argv[2]})
    return program, program.stdout.readline() == b"held\\n"

def choose(pid):
    with open("/proc/sys/kernel/ns_last_pid", "w") as f:
        f.write(str(pid - 1))

def killed():
    program, holds = hold()
    assert holds
    program.kill()
    program.wait()
    choose(program.pid)
    return program.pid

# While a process of the tenant lives the file is not set up anew.
keeper, holds = hold(2)
assert holds
pid = killed()
stranger = subprocess.Popen(["sleep", "60"])
program, holds = hold()
print("stranger", int(stranger.pid == pid), int(holds))
program.kill()
program.wait()
stranger.kill()
stranger.wait()
pid = killed()
program, holds = hold()
print("member", int(program.pid == pid), int(holds))
program.kill()
keeper.kill()
"""


@pytest.mark.plain
def test_a_pid_that_is_used_again(place):
    """A dead process's bytes are free although its number lives: as a stranger's, then as a member's."""
    needs_containers()
    needs(os.access("/proc/sys/kernel/ns_last_pid", os.W_OK), "no pid can be chosen here")
    place.settings["RATION_MEM"] = 2 * CONTEXT + 102 * MIB
    done = place.run(*CONTAINER, sys.executable, "-c", REUSE, PROGRAMS / "quota", LIBRARY, preload=())
    assert done.lines == ["stranger 1 1", "member 1 1"]


MULTIPROCESSING = """
import ctypes, multiprocessing as mp, sys
MIB = 1 << 20

def take(size):
    cuda, context, device = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), 0
    code = cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) \\
        or cuda.cuCtxSetCurrent(context)
    pointer = ctypes.c_uint64()
    return code or cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size * MIB))

def work(all_ask, go_on, codes):
    for size in (30, 60):
        all_ask.wait(20)
        codes.put(take(size))
    go_on.wait(20)

if __name__ == "__main__":
    method, first = sys.argv[1], int(sys.argv[2])
    mp = mp.get_context(method)
    assert not first or take(first) == 0
    all_ask, go_on, codes = mp.Barrier(2), mp.Event(), mp.Queue()
    children = [mp.Process(target=work, args=(all_ask, go_on, codes)) for _ in range(2)]
    for child in children:
        child.start()
    found = sorted(codes.get(timeout=60) for _ in range(4))
    print(*found)
    print("held", flush=True)
    sys.stdin.readline()
    go_on.set()
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    if first:
        assert take(first) == 0
    print("end", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.plain
@pytest.mark.parametrize("first", [0, 50])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_python_multiprocessing(place, method, first):
    """
    Before and after the parent's first use of the device. A child by fork after it has no driver, as
    without us; all others have a slot each, and what is left of the limit.
    """
    script = place.folder / "script.py"
    script.write_text(MULTIPROCESSING)
    own = CONTEXT + first * MIB if first else 0
    place.settings["RATION_MEM"] = own + 2 * (CONTEXT + 50 * MIB) if first else 2 * (CONTEXT + 50 * MIB)
    program = place.start(sys.executable, script, method, first).await_word("held")
    if method == "fork" and first:
        assert program.said[0] == " ".join(4 * [str(NOT_INITIALIZED)])
        assert place.slots() == {program.pid: own}
    else:
        assert program.said[0] == "0 0 2 2"
        assert sorted(place.slots().values()) == sorted([own] * bool(first) + 2 * [CONTEXT + 30 * MIB])
    program.go().await_word("end")
    # The dead are taken off with the parent's next call that has to know, or by its worker.
    for _ in range(100):
        if first == 0 or place.charged() == own + first * MIB:
            break
        time.sleep(0.1)
    assert first == 0 or place.charged() == own + first * MIB
    program.go().end()


@pytest.mark.plain
def test_a_setuid_program_that_has_to_load_it(place):
    """/etc/ld.so.preload reaches setuid programs too: nothing of their caller's environment counts."""
    needs(is_root() and allows("unshare", "-m", "true") and allows("setpriv", "--version"),
          "mounting is not allowed here")
    script = (f"mount -t tmpfs -o mode=1777 none /dev/shm && cp {PROGRAMS}/where /dev/shm/where && "
              f"cp {LIBRARY} {BUILD}/sim/libcuda.so.1 /dev/shm && chmod 4755 /dev/shm/where && "
              "mkdir /dev/shm/up /dev/shm/work && mkdir -m 1777 /dev/shm/tmp && "
              "mount -t overlay -o lowerdir=/etc,upperdir=/dev/shm/up,workdir=/dev/shm/work none /etc && "
              "mount --bind /dev/shm/tmp /tmp && echo /dev/shm/libration.so >/etc/ld.so.preload && "
              "setpriv --reuid=65534 --clear-groups /dev/shm/where open=/dev/shm/libcuda.so.1 "
              "handle:cuMemAlloc_v2 init && ls /dev/shm /tmp")
    env = place.environment(preload=(), RATION_REGION="/dev/shm/evil", RATION_MEM="1x",
                            RATION_LOG="debug", CUDA_DEVICE_MEMORY_SHARED_CACHE="/dev/shm/evil")
    done = place.run("unshare", "-m", "/bin/sh", "-c", script, env=env, err=None)
    needs("mount:" not in done.err, done.err)
    assert done.lines[1:3] == ["handle:cuMemAlloc_v2 libration.so cuMemAlloc_v2", "init 0"]
    assert "evil" not in done.lines and "cudevshr.cache" in done.lines and done.err == ""
