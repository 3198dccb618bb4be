"""Runs clients of the driver and of NVML on the software GPU, each test on a machine of its own."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
MIB = 1 << 20


@pytest.fixture(scope="session")
def build():
    """The build folder, with the software GPU's libraries in it."""
    path = pathlib.Path(os.environ.get("RATION_BUILD", HERE.parents[1] / "build")).resolve()
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        assert (path / "sim" / name).exists(), f"{path}/sim/{name} is not built"
    return path


# Says the environment of a program inside a tenant, and keeps the tenant there until its input ends.
SAY_ENVIRONMENT = """
import json, os, sys
print(json.dumps(dict(os.environ)), flush=True)
sys.stdin.read()
"""


class Machine:
    """A software GPU, and programs that run on it."""

    def __init__(self, build, folder):
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("RATION_", "CUDA_"))}
        self.env["LD_LIBRARY_PATH"] = str(build / "sim")
        self.env["RATION_SIM_FILE"] = str(folder / "machine")
        self.env["PATH"] = f"{pathlib.Path(sys.executable).parent}:{self.env['PATH']}"
        self.env["COLUMNS"] = "160"
        self.env["RATION_DIR"] = str(folder / "tenants")
        self.ration = str(build / "ration")
        self.holders = []

    def configure(self, text):
        """Sets RATION_SIM. Only before the first program runs."""
        self.env["RATION_SIM"] = text

    def run(self, *command, status=0):
        """Runs a program to its end and returns what it printed."""
        done = subprocess.run(
            command, env=self.env, text=True, capture_output=True, timeout=120, check=False
        )
        assert done.returncode == status, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def python(self, code):
        """Runs Python code, which ends by itself, and returns what it printed."""
        return self.run(sys.executable, "-c", code)

    def start(self, *command):
        """Starts a program that runs until its input ends."""
        program = subprocess.Popen(
            command, env=self.env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.holders.append(program)
        return program

    def hold(self, size_bytes, device=0):
        """Starts a process with a context on the device and a buffer of that size in it."""
        holder = self.start(sys.executable, str(HERE / "hold.py"), str(device), str(size_bytes))
        assert holder.stdout.readline() == "holds\n"
        return holder

    def tenant(self, *options):
        """`ration run` with these options: the same machine as a program inside it has it."""
        run = self.start(self.ration, "run", "--sim=" + self.env["RATION_SIM"], *options,
                         sys.executable, "-c", SAY_ENVIRONMENT)
        inside = Machine.__new__(Machine)
        inside.__dict__.update(self.__dict__, env=json.loads(run.stdout.readline()))
        return inside

    def ps(self):
        """What `ration ps` says of the one tenant here; others of the system are listed as well."""
        tenants = json.loads(self.run(self.ration, "ps", "--json"))["tenants"]
        (tenant,) = [t for t in tenants if t["path"].startswith(self.env["RATION_DIR"])]
        return tenant

    def close(self):
        for holder in self.holders:
            holder.kill()
            holder.wait()
            holder.stdin.close()
            holder.stdout.close()


@pytest.fixture
def machine(build):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ration-client-", dir="/dev/shm"))
    it = Machine(build, folder)
    yield it
    it.close()
    shutil.rmtree(folder)
