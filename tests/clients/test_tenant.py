"""
Monitors inside a tenant, unchanged: in total, used, free and in each process's bytes they say what
`ration ps` says from outside, and nobody else is in them.
"""

import json
import re

import pytest

MIB = 1 << 20
LIMITS = [1024, 2048]
CONFIG = "count=2,mem=8g,reserved=256m,context=32m,name=Sim One/Sim Two,driver=12.4,nvml=550.54.15"

READ = """
import json
import pynvml as nvml
nvml.nvmlInit()
out = []
for index in range(nvml.nvmlDeviceGetCount()):
    dev = nvml.nvmlDeviceGetHandleByIndex(index)
    plain = nvml.nvmlDeviceGetMemoryInfo(dev)
    full = nvml.nvmlDeviceGetMemoryInfo(dev, version=nvml.nvmlMemory_v2)
    bar1 = nvml.nvmlDeviceGetBAR1MemoryInfo(dev)
    lists = [nvml.nvmlDeviceGetComputeRunningProcesses(dev), nvml.nvmlDeviceGetComputeRunningProcesses_v2(dev),
             nvml.nvmlDeviceGetComputeRunningProcesses_v3(dev)]
    assert nvml.nvmlDeviceGetGraphicsRunningProcesses(dev) == []
    assert nvml.nvmlDeviceGetMPSComputeRunningProcesses(dev) == []
    out.append({
        "plain": [plain.total, plain.used, plain.free],
        "full": [full.total, full.used + full.reserved, full.free],
        "bar1": bar1.bar1Total,
        "processes": [sorted([p.pid, p.usedGpuMemory] for p in l) for l in lists],
    })
nvml.nvmlShutdown()
print(json.dumps(out))
"""


@pytest.fixture(name="busy")
def make_busy(machine):
    """
    A tenant with limits on both devices and three processes, beside a process that is nobody's:
    the tenant, the devices as `ration ps` has them, and on each {pid: bytes}.
    """
    machine.configure(CONFIG)
    outside = machine.hold(3000 * MIB)
    inside = machine.tenant("--mem", f"0:{LIMITS[0]}m,1:{LIMITS[1]}m", "--name", "a")
    held = [(300, 0), (200, 0), (700, 1)]
    holders = [inside.hold(size * MIB, device) for size, device in held]
    seen = machine.ps()
    processes = [{}, {}]
    for process in seen["processes"]:
        for use in process["devices"]:
            if use["used_bytes"]:
                processes[use["index"]][process["pid"]] = use["used_bytes"]
    # The figures that all others are held against.
    assert processes == [{h.pid: (size + 32) * MIB for h, (size, on) in zip(holders, held) if on == d}
                         for d in range(2)]
    for d, device in enumerate(seen["devices"]):
        used = sum(processes[d].values())
        assert device["limit_bytes"] == LIMITS[d] * MIB and device["used_bytes"] == used
        assert device["free_bytes"] == LIMITS[d] * MIB - used
    yield inside, seen["devices"], processes
    assert outside.poll() is None


def test_nvidia_ml_py(busy):
    inside, devices, processes = busy
    got = json.loads(inside.python(READ))
    assert len(got) == len(devices)
    for d, device in enumerate(devices):
        memory = [device["limit_bytes"], device["used_bytes"], device["free_bytes"]]
        assert got[d]["plain"] == got[d]["full"] == memory
        assert got[d]["bar1"] == device["limit_bytes"]
        assert got[d]["processes"] == [sorted(map(list, processes[d].items()))] * 3


def test_gpustat(busy):
    inside, devices, processes = busy
    got = json.loads(inside.run("gpustat", "--json"))["gpus"]
    assert [g["memory.total"] for g in got] == [d["limit_bytes"] // MIB for d in devices]
    assert [g["memory.used"] for g in got] == [d["used_bytes"] // MIB for d in devices]
    for d, gpu in enumerate(got):
        assert {p["pid"]: p["gpu_memory_usage"] for p in gpu["processes"]} == {
            pid: used // MIB for pid, used in processes[d].items()}


def test_nvitop(busy):
    inside, devices, processes = busy
    out = inside.run("nvitop", "-1")
    for device in devices:
        used, limit = device["used_bytes"] / MIB, device["limit_bytes"] // MIB
        assert f"{used:.1f}MiB / {limit}MiB" in out
    rows = re.findall(r"\s([01])\s+(\d+)\s+C\b.*?([\d.]+)MiB", out)
    assert sorted(rows) == sorted((str(d), str(pid), f"{used / MIB:.1f}")
                                  for d in range(2) for pid, used in processes[d].items())


def test_a_monitor_that_was_there_first(machine):
    """It sees each process that comes and goes, also the first of the tenant."""
    machine.configure(CONFIG)
    inside = machine.tenant("--mem", "0:1g", "--name", "a")
    monitor = inside.start("python", "-uc", """
import sys
import pynvml as nvml
nvml.nvmlInit()
dev = nvml.nvmlDeviceGetHandleByIndex(0)
while True:
    memory = nvml.nvmlDeviceGetMemoryInfo(dev)
    pids = [p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses(dev)]
    print(memory.total >> 20, memory.used >> 20, *pids)
    if not sys.stdin.readline():
        break
""")

    def look():
        monitor.stdin.write("\n")
        monitor.stdin.flush()
        return [int(n) for n in monitor.stdout.readline().split()]

    assert [int(n) for n in monitor.stdout.readline().split()] == [1024, 0]
    for _ in range(2):
        holder = inside.hold(100 * MIB)
        assert look() == [1024, 132, holder.pid]
        holder.kill()
        holder.wait()
        assert look() == [1024, 0]


SLICES = """
import json
import pynvml as nvml
nvml.nvmlInit()
card = nvml.nvmlDeviceGetHandleByIndex(0)
out = []
for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(card)):
    try:
        dev = nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, index)
    except nvml.NVMLError_NotFound:
        continue
    memory = nvml.nvmlDeviceGetMemoryInfo(dev)
    out.append([nvml.nvmlDeviceGetUUID(dev), memory.total, memory.used, memory.free,
                {p.pid: p.usedGpuMemory for p in nvml.nvmlDeviceGetComputeRunningProcesses(dev)}])
print(json.dumps(out))
"""


def test_slices(machine):
    """The same on a card that is divided by MIG: nvidia-ml-py, nvitop and `ration ps`."""
    machine.configure("mem=4g,reserved=0,context=32m,mig=2,name=Sim")
    first, second = [row[0] for row in json.loads(machine.python(SLICES))]
    inside = machine.tenant("--mem", f"{first}:1200m,{second}:1g", "--name", "a")
    inside.env["CUDA_VISIBLE_DEVICES"] = second
    holder = inside.hold(200 * MIB)
    used = 232 * MIB
    seen = machine.ps()
    assert [(d["uuid"], d["limit_bytes"], d["used_bytes"], d["free_bytes"]) for d in seen["devices"]] == [
        (first, 1200 * MIB, 0, 1200 * MIB), (second, 1024 * MIB, used, 1024 * MIB - used)]
    assert json.loads(inside.python(SLICES)) == [
        [first, 1200 * MIB, 0, 1200 * MIB, {}],
        [second, 1024 * MIB, used, 1024 * MIB - used, {str(holder.pid): used}]]
    out = inside.run("nvitop", "-1")
    for text in ("232.0MiB / 2224MiB", "0B /  1200MiB", "232.0MiB /  1024MiB"):
        assert text in out
    assert re.search(rf"0:1\s+{holder.pid} C\b.*232\.0MiB", out)
