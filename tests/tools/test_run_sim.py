"""`ration run` and `ration ps` with a program that uses the software GPU."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

MIB = 1 << 20

# Allocates pieces of 64 MiB until refused, says how it went, and waits.
PROGRAM = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
device, context, total, free = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
def call(name, *args):
    return getattr(cuda, name)(*args)
assert call("cuInit", 0) == 0
assert call("cuDeviceGet", ctypes.byref(device), 0) == 0
assert call("cuCtxCreate_v2", ctypes.byref(context), 0, device) == 0
pieces = 0
while True:
    at = ctypes.c_uint64()
    result = call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(64 << 20))
    if result:
        break
    pieces += 1
assert call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total)) == 0
# In one piece: another one may write at the same time.
sys.stdout.write(f"{pieces} {result} {total.value} {free.value}\\n")
sys.stdout.flush()
sys.stdin.read()
"""

# Leaves a descriptor of its memory to a child that knows nothing of the GPU, and is killed.
LENDER = """
import ctypes, os, signal, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, at, fd = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int()
assert cuda.cuInit(0) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(512 << 20)) == 0
assert cuda.cuMemGetHandleForAddressRange(ctypes.byref(fd), at, ctypes.c_size_t(512 << 20), 1,
                                          ctypes.c_ulonglong(0)) == 0
if os.fork() == 0:
    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
    os.dup2(1, 2)
    sys.stdin.read()
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def start(ration, *options, **kwargs):
    process = ration.start("run", *options, sys.executable, "-c", PROGRAM, stdin=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, **kwargs)
    process.answer = [int(n) for n in process.stdout.readline().split()]
    return process


def tenant(ration, name):
    tenants = json.loads(ration("ps", "--json").stdout)["tenants"]
    return next((t for t in tenants if t["path"].startswith(f"{ration.directory}/{name}.tenant/")), None)


def test_limit_holds_and_can_be_seen(ration, sim, eventually):
    process = start(ration, "--sim=mem=8g,context=64m", "--mem", "1g", "--name", "a")
    pieces, result, total, free = process.answer
    assert result == 2  # CUDA_ERROR_OUT_OF_MEMORY
    assert total == 1024 * MIB
    # The context's cost comes off the limit; what is left is less than a piece.
    assert 0 < pieces * 64 <= 1024 - 64
    assert 0 <= free < 64 * MIB
    seen = tenant(ration, "a")
    assert seen["devices"][0]["limit_bytes"] == 1024 * MIB
    assert seen["devices"][0]["used_bytes"] == 1024 * MIB - free
    assert seen["devices"][0]["free_bytes"] == free
    assert seen["devices"][0]["physical_bytes"] == 8192 * MIB
    assert len(seen["processes"]) == 1
    assert seen["processes"][0]["devices"][0]["used_bytes"] == 1024 * MIB - free
    command = seen["processes"][0]["command"]
    assert os.path.basename(os.path.realpath(sys.executable)).startswith(command[:6])
    process.stdin.close()
    assert process.wait(30) == 0
    assert ration.regions() == []


def test_environment_of_the_program_cannot_change_the_limit(ration, sim):
    process = ration.start("run", "--sim=mem=8g", "--mem", "512m", "env", "RATION_MEM=4g",
                           "CUDA_DISABLE_CONTROL=true", "CUDA_DEVICE_MEMORY_LIMIT=4g", sys.executable,
                           "-c", PROGRAM, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    total = int(process.stdout.readline().split()[2])
    assert total == 512 * MIB
    assert process.wait(30) == 0


def test_two_processes_share_one_limit(ration, sim):
    process = ration.start("run", "--sim=mem=8g,context=0", "--mem", "1g", "--name", "a", "sh", "-c",
                           '"$0" -c "$1" <&3 & "$0" -c "$1" <&3; wait', sys.executable, PROGRAM,
                           stdin=subprocess.PIPE, stderr=subprocess.DEVNULL,
                           preexec_fn=lambda: os.dup2(0, 3), pass_fds=(3,))
    pieces = sum(int(process.stdout.readline().split()[0]) for _ in range(2))
    assert pieces == 16
    seen = tenant(ration, "a")
    assert seen["devices"][0]["used_bytes"] == 1024 * MIB
    assert len(seen["processes"]) == 2
    process.stdin.close()
    assert process.wait(30) == 0


def test_a_killed_process_does_not_count(ration, sim, eventually):
    process = ration.start("run", "--sim=mem=8g", "--mem", "1g", "--name", "a", "sh", "-c",
                           '"$0" -c "$1" <&3; read x', sys.executable, PROGRAM,
                           stdin=subprocess.PIPE, stderr=subprocess.DEVNULL,
                           preexec_fn=lambda: os.dup2(0, 3), pass_fds=(3,))
    process.stdout.readline()
    pid = tenant(ration, "a")["processes"][0]["pid"]
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: tenant(ration, "a")["processes"] == [])
    assert tenant(ration, "a")["devices"][0]["used_bytes"] == 0
    process.stdin.write("end\n")
    process.stdin.close()
    assert process.wait(30) == 0


def test_a_killed_run_leaves_the_limit_in_force(ration, sim, eventually):
    process = start(ration, "--sim=mem=8g", "--mem", "1g", "--name", "a")
    pid = tenant(ration, "a")["processes"][0]["pid"]
    process.kill()
    process.wait(30)
    assert tenant(ration, "a")["processes"][0]["pid"] == pid
    assert ration("run", "--name", "a", "true").returncode == 125
    process.stdin.close()
    eventually(lambda: tenant(ration, "a") is None)
    # Whoever comes next removes the file.
    ration("ps")
    assert ration.regions() == []


def test_what_descriptors_hold_keeps_the_limit_in_force(ration, sim, eventually):
    """Who comes by the same name would have all of the limit, beside what the card holds of it."""
    process = ration.start("run", "--sim=mem=8g", "--mem", "1g", "--name", "a", sys.executable, "-c", LENDER,
                           stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.wait(30) == -signal.SIGKILL
    assert tenant(ration, "a")["processes"] == []
    assert tenant(ration, "a")["devices"][0]["used_bytes"] == 512 * MIB
    again = ration("run", "--name", "a", "true")
    assert again.returncode == 125
    assert "the name 'a' is taken" in again.stderr
    process.stdin.close()
    eventually(lambda: ration("run", "--name", "a", "true").returncode == 0)
    assert ration.regions() == []


def test_a_program_that_comes_after_its_tenant_has_its_limit(ration, sim, eventually, tmp_path):
    """The command ends, what it started in the background uses the GPU later."""
    script = '(read go <"$2"; exec "$0" -c "$1" <"$2" >"$3") >/dev/null 2>&1 & exit 3'
    fifo, out = tmp_path / "fifo", tmp_path / "out"
    os.mkfifo(fifo)
    run = ration("run", "--sim=mem=8g", "--mem", "512m", "--name", "a", "sh", "-c", script,
                 sys.executable, PROGRAM, fifo, out)
    assert run.returncode == 3
    ration("ps")
    assert ration.regions() == []
    with open(fifo, "w") as writer:
        writer.write("go\n")
        writer.flush()
        eventually(lambda: out.exists() and "\n" in out.read_text())
        assert out.read_text().split()[2] == str(512 * MIB)
        assert tenant(ration, "a")["devices"][0]["limit_bytes"] == 512 * MIB
        pid = tenant(ration, "a")["processes"][0]["pid"]
    eventually(lambda: not os.path.exists(f"/proc/{pid}"))
    ration("ps")
    assert ration.regions() == []


def test_a_program_without_a_gpu_touches_nothing(ration, sim):
    out = ration("run", "--sim", "--mem", "1g", "sh", "-c", "ls /proc/self/fd; cat /proc/self/maps")
    assert ".region" not in out.stdout.replace("libration", "")
    assert out.stderr == ""


def test_settings_that_are_not_those_in_use(ration, sim):
    """The library and the driver of each process use the machine; one of them says so."""
    process = start(ration, "--sim=mem=8g", "--mem", "1g", "--name", "a")
    for settings, says in (("mem=4g,count=2", 1), ("mem=8192m", 0), (None, 0)):
        option = f"--sim={settings}" if settings else "--sim"
        out = ration("run", option, "--mem", "512m", sys.executable, "-c", PROGRAM, stdin=subprocess.DEVNULL)
        assert out.returncode == 0
        said = [line for line in out.stderr.splitlines() if "ration-sim" in line]
        assert len(said) == says, out.stderr
        for line in said:
            assert all(text in line for text in ("'mem=4g,count=2'", "'mem=8g'", "RATION_SIM_FILE"))
    process.stdin.close()
    assert process.wait(30) == 0


def test_a_musl_program_runs(ration, tmp_path):
    if not shutil.which("musl-gcc"):
        pytest.skip("no musl-gcc")
    source = tmp_path / "hello.c"
    source.write_text('#include <stdio.h>\nint main(void) { puts("hello"); return 4; }\n')
    for options in ([], ["-static"]):
        subprocess.run(["musl-gcc", *options, "-o", tmp_path / "hello", source], check=True)
        out = ration("run", "--mem", "1g", tmp_path / "hello")
        assert (out.returncode, out.stdout, out.stderr) == (4, "hello\n", "")


def test_a_program_of_the_cuda_runtime_is_told_why_it_does_not_run(ration, sim):
    """The runtime asks for private tables first, and makes "named symbol not found" of the answer."""
    program = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
table, uuid = ctypes.c_void_p(), (ctypes.c_char * 16)()
assert [cuda.cuGetExportTable(ctypes.byref(table), uuid) for _ in range(2)] == [500, 500]
"""
    out = ration("run", "--sim", sys.executable, "-c", program)
    assert (out.returncode, out.stdout) == (0, "")
    assert out.stderr.count("\n") == 1
    assert out.stderr.startswith("ration-sim: ") and "CUDA runtime" in out.stderr
