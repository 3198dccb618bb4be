"""gpustat"""

import json

MIB = 1 << 20


def test_devices_and_processes(machine):
    machine.configure("count=2,mem=8g,reserved=0,context=32m,name=Sim GPU")
    holder = machine.hold(700 * MIB)
    got = json.loads(machine.run("gpustat", "--json"))
    assert [d["name"] for d in got["gpus"]] == ["Sim GPU", "Sim GPU"]
    assert [d["memory.total"] for d in got["gpus"]] == [8192, 8192]
    assert [d["memory.used"] for d in got["gpus"]] == [732, 0]
    assert got["gpus"][1]["processes"] == []
    (process,) = got["gpus"][0]["processes"]
    assert process["pid"] == holder.pid
    assert process["gpu_memory_usage"] == 732


def test_text(machine):
    machine.configure("mem=8g,reserved=0,name=Sim GPU")
    out = machine.run("gpustat", "--no-color", "--show-pid")
    assert "Sim GPU" in out
    assert "0 /  8192 MB" in out
