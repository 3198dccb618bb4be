"""nvitop, one shot"""

import re

MIB = 1 << 20


def test_devices_and_processes(machine):
    machine.configure("count=2,mem=8g,reserved=0,context=32m,name=Sim One/Sim Two,nvml=550.54.15,driver=12.4")
    holder = machine.hold(700 * MIB, device=1)
    out = machine.run("nvitop", "-1")
    assert re.search(r"Driver Version: 550\.54\.15", out)
    assert re.search(r"CUDA Driver Version: 12\.4", out)
    assert "Sim One" in out and "Sim Two" in out
    assert "0B / 8192MiB" in out and "732.0MiB / 8192MiB" in out
    assert re.search(rf"\b1\s+{holder.pid}\s+C\b.*732\.0MiB", out)


def test_without_processes(machine):
    machine.configure("mem=8g,name=Sim One")
    out = machine.run("nvitop", "-1")
    assert "Sim One" in out
    assert "No running processes found" in out
