"""The command under test: $RATION_BUILD/ration, ./build/ration by default."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

BUILD = Path(os.environ.get("RATION_BUILD", "build")).resolve()
RATION = BUILD / "ration"


def clean_environment():
    """This process's environment without what configures Ration or chooses a driver."""
    dropped = ("RATION_", "CUDA_", "GPU_CORE_", "LIBCUDA_", "NVIDIA_", "POD_", "CONTAINER_")
    return {k: v for k, v in os.environ.items()
            if not k.startswith(dropped) and k not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}


class Command:
    """Runs `ration`, with the tenants' files in a directory of the test's own."""

    path = str(RATION)

    def __init__(self, directory, sim_file):
        self.directory = directory
        self.env = clean_environment()
        self.env["RATION_DIR"] = str(directory)
        self.env["RATION_SIM_FILE"] = str(sim_file)

    def _environment(self, env):
        merged = dict(self.env)
        for name, value in (env or {}).items():
            if value is None:
                merged.pop(name, None)
            else:
                merged[name] = str(value)
        return merged

    def __call__(self, *args, env=None, **kwargs):
        return subprocess.run([self.path, *map(str, args)], env=self._environment(env), text=True,
                              capture_output=True, timeout=60, check=False, **kwargs)

    def start(self, *args, env=None, **kwargs):
        kwargs.setdefault("stdout", subprocess.PIPE)
        return subprocess.Popen([self.path, *map(str, args)], env=self._environment(env), text=True,
                                **kwargs)

    def regions(self):
        """What stands in the tenants' directory."""
        return sorted(p.name for p in self.directory.glob("*")) if self.directory.exists() else []

    def place(self, name):
        """A file as a tenant of that name has it, in a directory made for it; not made itself."""
        path = self.directory / f"{name}.tenant" / (name.encode().hex()[:32].ljust(32, "0") + ".region")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def region(self, name):
        """The file of a living tenant."""
        (path,) = (self.directory / f"{name}.tenant").glob("*.region")
        return path


@pytest.fixture
def ration(tmp_path):
    assert RATION.exists(), f"{RATION} is not built"
    return Command(tmp_path / "tenants", tmp_path / "sim")


@pytest.fixture
def eventually():
    """Waits until a condition holds and returns what it gave; fails when it never does."""

    def wait(condition, seconds=30):
        end = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < end, "it never came to be"
            time.sleep(0.01)

    return wait


@pytest.fixture
def dead_pid():
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@pytest.fixture
def sim():
    if not (BUILD / "sim" / "libcuda.so.1").exists():
        pytest.skip("the software GPU is not built")
    return BUILD / "sim"


@pytest.fixture
def open_copy(tmp_path_factory):
    """A copy of the command and the library where any user can start it; its path."""
    place = tmp_path_factory.mktemp("open")
    for part in (place, place.parent, place.parent.parent):
        if part.stat().st_uid == os.geteuid() and part.stat().st_mode & 0o5 != 0o5:
            part.chmod(0o755)
    for name in ("ration", "libration.so", "sim/libcuda.so.1", "sim/libnvidia-ml.so.1"):
        if (BUILD / name).exists():
            (place / name).parent.mkdir(exist_ok=True)
            shutil.copy(BUILD / name, place / name)
            (place / name).chmod(0o755)
    (place / "sim").chmod(0o777)
    return str(place / "ration")
