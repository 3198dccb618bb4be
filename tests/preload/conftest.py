"""Programs behind LD_PRELOAD=libration.so, each test with a software GPU and a region of its own."""
import collections
import itertools
import os
import re
import select
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("RATION_BUILD", Path(__file__).parents[2] / "build"))
PROGRAMS = BUILD / "preload"
LIBRARY = BUILD / "libration.so"
# The sanitizer's runtime goes before every preload; empty in a plain build.
RUNTIME = [item for item in [os.environ.get("RATION_SANITIZER_RUNTIME", "")] if item]
SANITIZED = bool(os.environ.get("RATION_SANITIZE"))
# All tests with the memory of objects (docs/movable.md).
MOVABLE = {"RATION_MOVABLE": "true"} if os.environ.get("RATION_TEST_MOVABLE") else {}
MIB = 1 << 20
CONTEXT = 64 * MIB
BLOCK = 2 * MIB

OUT_OF_MEMORY = 2
NOT_INITIALIZED = 3
NOT_PERMITTED = 800

# include/ration/region.h
HAMI_LIMIT, HAMI_PROCS, HAMI_PROC_BYTES, HAMI_PROC_NUM = 1600, 1856, 1960, 2008896
OWN, OWN_DEVICES, OWN_ACCOUNTS, OWN_SLOTS = 2011136, 3584, 3584 + 128 * 32, 3584 + 192 * 32
OWN_ROOM_WANTED = 2316
HOOKED_PREFIXES = ("RATION", "CUDA_", "GPU_CORE_", "NVIDIA_", "LD_", "LIBCUDA", "POD_UID", "CONTAINER_NAME")

numbers = itertools.count()


def pytest_configure(config):
    config.addinivalue_line("markers", "plain: not asked again under a sanitizer")
    config.addinivalue_line("markers", "some: under a sanitizer two of its parameters are enough")


def pytest_collection_modifyitems(config, items):
    """What a sanitizer's runtime changes, or repeats, is asked of the plain build only."""
    if not SANITIZED:
        return
    left, seen = [], collections.Counter()
    for item in items:
        seen[item.function] += 1
        if item.get_closest_marker("plain") or (item.get_closest_marker("some")
                                                and seen[item.function] > 2):
            left.append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


class Result:
    """How a program ended and what it wrote."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    @property
    def lines(self):
        return self.out.splitlines()

    @property
    def values(self):
        """The `name value` lines as a dictionary of integers."""
        return {m[1]: int(m[2]) for m in re.finditer(r"^(\S+) (-?\d+)$", self.out, re.M)}


class Running:
    """A program that says words on standard output and waits for a line at each pause."""

    def __init__(self, popen):
        self.popen, self.said, self.rest = popen, [], b""

    @property
    def pid(self):
        return self.popen.pid

    def await_word(self, word, timeout=60):
        end = time.monotonic() + timeout
        while True:
            while b"\n" in self.rest:
                line, self.rest = self.rest.split(b"\n", 1)
                self.said.append(line.decode())
                if self.said[-1] == word:
                    return self
            ready, _, _ = select.select([self.popen.stdout], [], [], max(0, end - time.monotonic()))
            got = os.read(self.popen.stdout.fileno(), 65536) if ready else b""
            if not got:
                self.popen.kill()
                out, err = self.popen.communicate()
                pytest.fail(f"'{word}' was not said: {self.said} {out!r} {err!r}")
            self.rest += got

    def go(self):
        self.popen.stdin.write(b"\n")
        self.popen.stdin.flush()
        return self

    def end(self, status=0, timeout=60):
        self.popen.stdin.close()
        self.popen.stdin = None
        out, err = self.popen.communicate(timeout=timeout)
        text = "\n".join(self.said + [(self.rest + out).decode()])
        assert self.popen.returncode == status, (self.popen.returncode, text, err.decode())
        return Result(self.popen.returncode, text, err.decode())

    def kill(self):
        self.popen.kill()
        self.popen.communicate()


class Place:
    """A software GPU, a region and a folder that no other test shares."""

    def __init__(self, folder):
        self.folder = folder
        self.region = folder / "region"
        self.sim_file = Path(f"/dev/shm/ration-preload-{os.getpid()}-{next(numbers)}")
        self.sim = {"context": "64m", "mem": "8g"}
        self.settings = dict(MOVABLE)
        self.started = []

    def environment(self, preload=(LIBRARY,), **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith(HOOKED_PREFIXES)}
        libraries = [str(item) for item in [*(RUNTIME if preload else []), *preload]]
        env.update(LD_LIBRARY_PATH=str(BUILD / "sim"), RATION_SIM_FILE=str(self.sim_file),
                   RATION_SIM=",".join(f"{k}={v}" for k, v in self.sim.items()),
                   RATION_REGION=str(self.region))
        if libraries:
            env["LD_PRELOAD"] = " ".join(libraries)
        env.update(self.settings)
        env.update(more)
        return {k: str(v) for k, v in env.items() if v is not None}

    @staticmethod
    def command(argv):
        program = PROGRAMS / str(argv[0])
        return [str(program if program.exists() else argv[0]), *map(str, argv[1:])]

    def run(self, *argv, preload=(LIBRARY,), status=0, err="", timeout=60, **kwargs):
        """Runs a program to its end. `err`: a text standard error must hold; "" for an empty one."""
        options = {k: kwargs.pop(k) for k in ("input", "cwd", "user", "pass_fds", "env")
                   if k in kwargs}
        env = options.pop("env", None)
        done = subprocess.run(self.command(argv), capture_output=True, text=True, timeout=timeout,
                              env=self.environment(preload, **kwargs) if env is None else env,
                              check=False, **options)
        assert status is None or done.returncode == status, (done.returncode, done.stdout,
                                                             done.stderr)
        if err == "":
            assert done.stderr == ""
        elif err is not None:
            assert err in done.stderr
        return Result(done.returncode, done.stdout, done.stderr)

    def start(self, *argv, preload=(LIBRARY,), **more):
        popen = subprocess.Popen(self.command(argv), stdin=subprocess.PIPE, bufsize=0,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 env=self.environment(preload, **more))
        self.started.append(popen)
        return Running(popen)

    def words(self, at, fmt):
        """Words of the region file."""
        with open(self.region, "rb") as f:
            f.seek(at)
            return struct.unpack(fmt, f.read(struct.calcsize(fmt)))

    def want_room(self):
        """Has what is kept at hand go back, and waits for that; slabs take two rounds of the worker."""
        if not MOVABLE or not self.region.exists():
            return
        with open(self.region, "r+b") as f:
            f.seek(OWN + OWN_ROOM_WANTED)
            wanted, = struct.unpack("I", f.read(4))
            f.seek(OWN + OWN_ROOM_WANTED)
            f.write(struct.pack("I", (wanted + 1) % 2**32))
        time.sleep(0.35)

    def charged(self, dev=0):
        """The tenant's sum on a device, when what is kept at hand for a moment has gone back."""
        self.want_room()
        return self.words(OWN + OWN_ACCOUNTS + 64 * dev, "Q")[0]

    def set_limit(self, limit_bytes, dev=0):
        with open(self.region, "r+b") as f:
            f.seek(HAMI_LIMIT + 8 * dev)
            f.write(struct.pack("Q", limit_bytes))

    def limit(self, dev=0):
        return self.words(HAMI_LIMIT + 8 * dev, "Q")[0]

    def suspend(self, is_wanted, timeout=30):
        """As `ration suspend` and `ration resume`, of a tenant whose first process answers."""
        done = self.ask_suspend(is_wanted, timeout)
        assert done.returncode == 0, (done.stdout, done.stderr)

    def ask_suspend(self, is_wanted, timeout, *options, **more):
        return subprocess.run([BUILD / "ration", "suspend" if is_wanted else "resume", self.region,
                               "--wait", str(timeout), *options], capture_output=True, check=False,
                              env=self.environment(preload=(), **more) if options else None)

    def slots(self):
        """{pid: bytes on device 0, as the monitors see them} of the slots that are not free."""
        found = {}
        for i in range(min(self.words(HAMI_PROC_NUM, "i")[0], 1024)):
            at = HAMI_PROCS + HAMI_PROC_BYTES * i
            if self.words(at + 1928, "i")[0]:
                found[self.words(at, "i")[0]] = self.words(at + 8 + 32, "Q")[0]
        return found

    def truth(self, dev=0):
        """{pid: bytes} as NVML tells a process without the library; as charged()."""
        self.want_room()
        out = self.run("observe", dev, preload=()).out
        return {int(pid): int(used) for pid, used in (line.split() for line in out.splitlines())}

    def most(self):
        """The most that was ever in use of the first device, by all of its processes together."""
        return self.run("most", preload=()).values["most"]

    def close(self):
        for popen in self.started:
            if popen.poll() is None:
                popen.kill()
                popen.communicate()
        self.sim_file.unlink(missing_ok=True)


@pytest.fixture(name="place")
def make_place(tmp_path):
    place = Place(tmp_path)
    yield place
    place.close()


@pytest.fixture(name="limited")
def make_limited(place):
    """With a limit of GPU time."""
    place.settings.update(RATION_MEM="1g", RATION_SM="20")
    return place


@pytest.fixture(name="open_place")
def make_open_place():
    """A place that other users can enter: pytest closes its own folders to them."""
    with tempfile.TemporaryDirectory(prefix="ration-preload-") as folder:
        os.chmod(folder, 0o1777)
        place = Place(Path(folder))
        yield place
        place.close()


def hook_rows():
    """Names of the HOOK rows of the tables."""
    tables = Path(__file__).parents[2] / "src" / "abi"
    return [name for table in ("cuda.def", "nvml.def")
            for name in re.findall(r"^HOOK\((\w+)\)", (tables / table).read_text(), re.M)]


def needs(condition, reason):
    if not condition:
        pytest.skip(reason)


def is_root():
    return os.geteuid() == 0


def library(name):
    """A helper library of this folder."""
    return PROGRAMS / f"lib{name}.so"


assert sys.version_info >= (3, 8)
