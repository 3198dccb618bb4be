"""nvidia-ml-py, the Python binding that most monitors stand on."""

import json

MIB = 1 << 20
CONTEXT_BYTES = 32 * MIB
CONFIG = "count=2,mem=4g/8g,reserved=256m,context=32m,name=Sim One/Sim Two,cc=8.9,driver=12.4,nvml=550.54.15"

READ = """
import json
import pynvml as nvml
nvml.nvmlInit()
out = {"driver": nvml.nvmlSystemGetDriverVersion(), "cuda": nvml.nvmlSystemGetCudaDriverVersion_v2(), "devices": []}
for index in range(nvml.nvmlDeviceGetCount()):
    dev = nvml.nvmlDeviceGetHandleByIndex(index)
    plain = nvml.nvmlDeviceGetMemoryInfo(dev)
    full = nvml.nvmlDeviceGetMemoryInfo(dev, version=nvml.nvmlMemory_v2)
    out["devices"].append({
        "name": nvml.nvmlDeviceGetName(dev),
        "uuid": nvml.nvmlDeviceGetUUID(dev),
        "bus": nvml.nvmlDeviceGetPciInfo(dev).busId,
        "cc": nvml.nvmlDeviceGetCudaComputeCapability(dev),
        "plain": [plain.total, plain.used, plain.free],
        "full": [full.total, full.reserved, full.used, full.free],
        "processes": [[p.pid, p.usedGpuMemory] for p in nvml.nvmlDeviceGetComputeRunningProcesses(dev)],
    })
nvml.nvmlShutdown()
print(json.dumps(out))
"""


def read(machine):
    return json.loads(machine.python(READ))


def test_identity(machine):
    machine.configure(CONFIG)
    got = read(machine)
    assert got["driver"] == "550.54.15"
    assert got["cuda"] == 12040
    assert [d["name"] for d in got["devices"]] == ["Sim One", "Sim Two"]
    assert [d["bus"] for d in got["devices"]] == ["00000000:01:00.0", "00000000:02:00.0"]
    assert [d["cc"] for d in got["devices"]] == [[8, 9], [8, 9]]
    assert got["devices"][0]["uuid"] != got["devices"][1]["uuid"]
    assert all(d["uuid"].startswith("GPU-") for d in got["devices"])


def test_same_devices_for_every_process(machine):
    machine.configure(CONFIG)
    assert read(machine) == read(machine)


def test_memory(machine):
    machine.configure(CONFIG)
    for device, size in zip(read(machine)["devices"], (4096 * MIB, 8192 * MIB)):
        assert device["plain"] == [size + 256 * MIB, 256 * MIB, size]
        assert device["full"] == [size + 256 * MIB, 256 * MIB, 0, size]
        assert device["processes"] == []


def test_process_is_listed_while_it_lives(machine):
    machine.configure(CONFIG)
    holder = machine.hold(700 * MIB, device=1)
    held = 700 * MIB + CONTEXT_BYTES
    first, second = read(machine)["devices"]
    assert first["processes"] == [] and first["full"][2] == 0
    assert second["processes"] == [[holder.pid, held]]
    assert second["full"][2] == held and second["full"][3] == 8192 * MIB - held
    holder.kill()
    holder.wait()
    second = read(machine)["devices"][1]
    assert second["processes"] == [] and second["full"][2] == 0


def test_two_processes(machine):
    machine.configure(CONFIG)
    pids = {machine.hold(size * MIB).pid: size * MIB + CONTEXT_BYTES for size in (64, 128)}
    device = read(machine)["devices"][0]
    assert {pid: used for pid, used in device["processes"]} == pids
    assert device["full"][2] == sum(pids.values())


def test_errors(machine):
    machine.python("""
import pynvml as nvml
def fails(error, call, *args):
    try:
        call(*args)
    except nvml.NVMLError as e:
        assert e.value == error, (call, e)
    else:
        raise AssertionError(call)
fails(nvml.NVML_ERROR_UNINITIALIZED, nvml.nvmlDeviceGetCount)
nvml.nvmlInit()
dev = nvml.nvmlDeviceGetHandleByIndex(0)
fails(nvml.NVML_ERROR_INVALID_ARGUMENT, nvml.nvmlDeviceGetHandleByIndex, 1)
fails(nvml.NVML_ERROR_NOT_FOUND, nvml.nvmlDeviceGetHandleByUUID, "GPU-1")
fails(nvml.NVML_ERROR_NOT_SUPPORTED, nvml.nvmlDeviceGetMigMode, dev)
fails(nvml.NVML_ERROR_NOT_SUPPORTED, nvml.nvmlDeviceGetFanSpeed, dev)
fails(nvml.NVML_ERROR_NOT_SUPPORTED, nvml.nvmlDeviceGetAccountingMode, dev)
assert nvml.nvmlDeviceGetMaxMigDeviceCount(dev) == 0
nvml.nvmlShutdown()
fails(nvml.NVML_ERROR_UNINITIALIZED, nvml.nvmlShutdown)
""")


def test_every_call_with_a_handle_answers(machine):
    """Each of the binding's nvmlDeviceGet* that takes just a handle: a value or an NVML error."""
    out = machine.python("""
import inspect
import pynvml as nvml
nvml.nvmlInit()
dev = nvml.nvmlDeviceGetHandleByIndex(0)
answered = 0
for name, call in sorted(vars(nvml).items()):
    if not name.startswith("nvmlDeviceGet") or not inspect.isfunction(call):
        continue
    try:
        needed = [p for p in inspect.signature(call).parameters.values() if p.default is p.empty]
        if len(needed) == 1 and needed[0].name in ("handle", "device"):
            call(dev)
            answered += 1
    except nvml.NVMLError:
        pass
print(answered)
""")
    assert int(out) >= 40
