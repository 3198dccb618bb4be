"""`ration doctor`: verdicts, and what is said to do."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import conftest
import region

TOPICS = ("configuration", "driver", "interception", "kernel", "limit", "out of reach", "preload",
          "ration", "region", "view")
VERDICTS = ("ok   ", "note ", "warn ", "FAIL ")


def lines(out, verdict="", topic=""):
    return [line for line in out.stdout.splitlines()
            if line.startswith(verdict) and line[6:].startswith(topic)]


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
        return True
    except OSError:
        return False


@pytest.fixture
def library():
    return conftest.BUILD / "libration.so"


def overlaid(ration, tmp_path, text, command, env=None):
    """Runs a command where / is as here but has /overrideEnv with `text`."""
    if os.geteuid() != 0:
        pytest.skip("needs root for a mount namespace")
    script = """set -e
mount -t tmpfs none "$1"
mkdir "$1/up" "$1/work" "$1/root"
mount -t overlay none -o "lowerdir=/,upperdir=$1/up,workdir=$1/work" "$1/root"
mount --rbind /proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
printf '%s\\n' "$2" >"$1/root/overrideEnv"
root=$1
shift 2
exec chroot "$root/root" "$@"
"""
    mount = tmp_path / "overlay"
    mount.mkdir()
    env = {**ration.env, "RATION_DIR": "/dev/shm/ration-test", "RATION_SIM_FILE": "/dev/shm/ration-test-sim",
           "PATH": os.environ["PATH"], **(env or {})}
    out = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", mount, text, *command], env=env,
                         text=True, capture_output=True, timeout=60, check=False)
    # /dev is bound in, so what is made there is found here.
    shutil.rmtree("/dev/shm/ration-test", ignore_errors=True)
    for left in Path("/dev/shm").glob("ration-test-*"):
        left.unlink()
    if "unshare" in out.stderr or "mount:" in out.stderr:
        pytest.skip("no overlay mounts here")
    return out


def test_every_line_has_a_verdict_and_a_topic(ration, sim):
    out = ration("doctor", "--sim=mem=8g")
    *body, verdict = out.stdout.splitlines()
    assert verdict == "healthy"
    for line in body:
        assert line.startswith(VERDICTS), line
        assert line[6:].startswith(TOPICS), line


def test_healthy_on_the_software_gpu(ration, sim):
    out = ration("doctor", "--sim=mem=8g,count=2")
    assert out.returncode == 0, out.stdout
    assert lines(out, "FAIL") == []
    driver = lines(out, "ok", "driver")
    assert any(f"{sim}/libcuda.so.1" in line and "software GPU" in line for line in driver)
    assert any(f"{sim}/libnvidia-ml.so.1" in line and "software GPU" in line for line in driver)
    assert any("2 devices" in line for line in driver)
    assert ration.regions() == []


def test_every_way_to_the_driver_is_tried(ration, sim):
    ways = lines(ration("doctor", "--sim"), "ok", "interception")
    for way in ("linked against libcuda", "RTLD_DEFAULT", "dlsym on libcuda's handle", "cuGetProcAddress:",
                "cuGetProcAddress_v2:", "per-thread streams", "dlsym on NVML's handle"):
        line = next(line for line in ways if way in line)
        right, asked = line.split(": ")[1].split()[0::2][:2]
        assert right == asked and int(right) > 0


def test_gpu_time(ration, sim):
    out = ration("doctor", "--sim=mem=8g", env={"RATION_SM": "30"})
    assert any(line.endswith("GPU time 30 %, from RATION_SM") for line in lines(out, "ok", "limit"))
    assert any("RATION_SM is set, but no program" in line for line in lines(out, "warn", "preload"))
    # What was tried with is no limit that is set.
    assert any("none is set here" in line for line in lines(out, "note", "limit"))
    assert not any("GPU time" in line for line in ration("doctor", "--sim").stdout.splitlines())


@pytest.mark.parametrize("policy, verdict, says", [
    ("disable", "warn", "GPU_CORE_UTILIZATION_POLICY is disable"), ("force", None, "GPU_CORE"),
    (None, "note", "monitor may switch")])
def test_gpu_time_of_a_scheduler(ration, sim, library, tmp_path, policy, verdict, says):
    env = {"LD_PRELOAD": library, "CUDA_DEVICE_MEMORY_SHARED_CACHE": tmp_path / "r",
           "CUDA_DEVICE_SM_LIMIT": "30", "CUDA_DEVICE_SM_LIMIT_1": "40",
           "GPU_CORE_UTILIZATION_POLICY": policy}
    out = ration("doctor", "--sim=mem=8g,count=2", env=env)
    limits = lines(out, "ok", "limit")
    assert any("device 0 " in line and line.endswith("GPU time 30 %, from CUDA_DEVICE_SM_LIMIT")
               for line in limits), out.stdout
    assert any("device 1 " in line and line.endswith("GPU time 40 %, from CUDA_DEVICE_SM_LIMIT_1")
               for line in limits)
    said = [line for line in lines(out, "", "limit") if says in line]
    assert len(said) == (2 if verdict else 0)
    assert all(line.startswith(verdict or "") for line in said)


def test_gpu_time_that_a_monitor_switched_off(ration, sim):
    """In a tenant whose region has the monitor's switch off."""
    script = ("import os, struct, sys; f = open(os.environ['RATION_REGION'], 'r+b'); f.seek(2008900); "
              "f.write(struct.pack('<i', 0)); f.flush(); os.execv(sys.argv[1], sys.argv[1:])")
    for option, warns in ((["--sm", "30"], False), ([], True)):
        out = ration("run", "--sim=mem=8g", *option, sys.executable, "-c", script, ration.path, "doctor",
                     env={"CUDA_DEVICE_SM_LIMIT": "30"})
        assert any("GPU time 30 %" in line for line in lines(out, "ok", "limit")), out.stdout
        assert any("switched the limit of GPU time off" in line
                   for line in lines(out, "warn", "limit")) == warns


def test_a_word_of_memory_that_was_cleared(ration, sim):
    """A tenant whose word somebody cleared: what is configured holds, and that is what is said."""
    script = ("import ctypes, os, struct, sys; ctypes.CDLL('libcuda.so.1').cuInit(0); "
              "f = open(os.environ['RATION_REGION'], 'r+b'); f.seek(1600); "
              "had, = struct.unpack('<Q', f.read(8)); f.seek(1600); f.write(bytes(8)); f.flush(); "
              "print('had', had, flush=True); os.execv(sys.argv[1], sys.argv[1:])")
    out = ration("run", "--sim=mem=8g", "--mem", "1g", sys.executable, "-c", script, ration.path, "doctor")
    assert f"had {1 << 30}" in out.stdout
    assert any("1 GiB, from --mem of ration run" in line for line in lines(out, "ok", "limit")), out.stdout
    assert not any("was changed" in line for line in lines(out, "", "limit"))


@pytest.mark.parametrize("limit, shown", [("1g", "1 GiB"), ("5g", "5 GiB"), ("1.5g", "1.5 GiB")])
def test_views_show_the_limit(ration, sim, limit, shown):
    out = ration("doctor", "--sim=mem=8g", env={"RATION_MEM": limit})
    views = lines(out, "ok", "view")
    for call in ("cuDeviceTotalMem", "nvmlDeviceGetMemoryInfo ", "nvmlDeviceGetMemoryInfo_v2"):
        assert any(f"{call.strip()} shows {shown} under a limit of {shown}" in v for v in views)
    assert any(f"{shown}, from RATION_MEM" in line for line in lines(out, "ok", "limit"))
    # It holds under `ration run` alone.
    assert any("RATION_MEM is set, but no program" in line for line in lines(out, "warn"))


def test_without_a_driver(ration):
    if has_driver():
        pytest.skip("a driver is here")
    out = ration("doctor")
    assert out.returncode == 1
    assert any("no CUDA driver" in line and "install" in line for line in lines(out, "FAIL", "driver"))
    assert out.stdout.splitlines()[-1] == "not healthy: 1 fault"
    assert ration.regions() == []


def test_preloaded_by_the_environment(ration, sim, library, tmp_path):
    env = {"LD_PRELOAD": library, "RATION_REGION": tmp_path / "r", "RATION_MEM": "1:3g"}
    out = ration("doctor", "--sim=mem=8g,count=2", env=env)
    assert out.returncode == 0, out.stdout
    limits = lines(out, "ok", "limit")
    assert any("device 0 " in line and line.endswith("no limit") for line in limits)
    assert any("device 1 " in line and line.endswith("3 GiB, from RATION_MEM") for line in limits)
    assert not any("start them" in line for line in lines(out, "warn"))


def test_each_limit_names_its_variable(ration, sim, library, tmp_path):
    env = {"LD_PRELOAD": library, "CUDA_DEVICE_MEMORY_SHARED_CACHE": tmp_path / "r",
           "CUDA_DEVICE_MEMORY_LIMIT": "1g", "CUDA_DEVICE_MEMORY_LIMIT_1": "2g"}
    limits = lines(ration("doctor", "--sim=mem=8g,count=2", env=env), "ok", "limit")
    assert any("device 0 " in line and line.endswith("1 GiB, from CUDA_DEVICE_MEMORY_LIMIT")
               for line in limits)
    assert any("device 1 " in line and line.endswith("2 GiB, from CUDA_DEVICE_MEMORY_LIMIT_1")
               for line in limits)


def test_a_zero_of_one_device_is_not_the_source(ration, sim, library, tmp_path):
    env = {"LD_PRELOAD": library, "CUDA_DEVICE_MEMORY_SHARED_CACHE": tmp_path / "r",
           "CUDA_DEVICE_MEMORY_LIMIT": "1g", "CUDA_DEVICE_MEMORY_LIMIT_0": "0"}
    limits = lines(ration("doctor", "--sim=mem=8g", env=env), "ok", "limit")
    assert any("device 0 " in line and line.endswith("1 GiB, from CUDA_DEVICE_MEMORY_LIMIT")
               for line in limits), limits


def test_each_limit_names_its_variable_where_devices_are_named(ration, sim, library, tmp_path):
    one, two = (f"GPU-{i}0000000-0000-0000-0000-000000000000" for i in (1, 2))
    env = {"LD_PRELOAD": library, "CUDA_DEVICE_MEMORY_SHARED_CACHE": tmp_path / "r",
           "NVIDIA_VISIBLE_DEVICES": f"{two},{one}", "CUDA_DEVICE_MEMORY_LIMIT_0": "1g",
           "CUDA_DEVICE_MEMORY_LIMIT_1": "2g"}
    out = ration("doctor", f"--sim=mem=8g,count=2,uuid={one}/{two}", env=env)
    limits = lines(out, "ok", "limit")
    assert any(one in line and line.endswith("2 GiB, from CUDA_DEVICE_MEMORY_LIMIT_1")
               for line in limits), out.stdout
    assert any(two in line and line.endswith("1 GiB, from CUDA_DEVICE_MEMORY_LIMIT_0")
               for line in limits)


def test_inside_a_tenant(ration, sim):
    out = ration("run", "--sim=mem=8g", "--mem", "1g", ration.path, "doctor")
    assert out.returncode == 0, out.stdout
    assert any("1 GiB, from --mem of ration run" in line for line in lines(out, "ok", "limit"))
    out = ration("run", "--sim=mem=8g", "--mem", "1g", "env", "RATION_MEM=5g", ration.path, "doctor")
    assert any("1 GiB under a limit of 1 GiB" in line for line in lines(out, "ok", "view"))
    assert any("RATION_MEM says 5 GiB" in line and "holds" in line
               for line in lines(out, "warn", "limit"))


@pytest.mark.parametrize("pids", ["same", "host"])
@pytest.mark.parametrize("is_inside", [False, True])
def test_contexts_are_counted(ration, sim, is_inside, pids):
    """With `host`, NVML lists processes under the host's pids, as older drivers do in a container."""
    option = f"--sim=mem=8g,context=64m,pids={pids}"
    args = (["run", option, "--mem", "1g", ration.path, "doctor"] if is_inside
            else ["doctor", option])
    out = ration(*args)
    assert out.returncode == 0, out.stdout
    assert any("contexts and modules are counted; a context takes 64 MiB" in line
               for line in lines(out, "ok", "limit")), out.stdout


@pytest.mark.parametrize("inside", [[], ["run", "--sim=mem=8g,context=64m,pids=bare", "--mem", "1g"]])
def test_contexts_cannot_be_counted(ration, sim, inside):
    """NVML does not say what a process holds, as under Windows' driver model."""
    sim_option = "--sim=mem=8g,context=64m,pids=bare"
    args = [*inside, ration.path, "doctor"] if inside else ["doctor", sim_option]
    out = ration(*args)
    assert out.returncode == 0, out.stdout
    (line,) = [line for line in lines(out, "warn", "limit") if "not counted" in line]
    assert "64 MiB" in line and "NVML does not say" in line


def test_contexts_that_are_not_to_be_counted(ration, sim):
    out = ration("doctor", "--sim=mem=8g", env={"RATION_CHARGE_CONTEXT": "false"})
    assert any("RATION_CHARGE_CONTEXT" in line for line in lines(out, "note", "limit"))
    assert not any("contexts" in line for line in lines(out, "ok", "limit") + lines(out, "warn"))


def test_limit_smaller_than_a_context(ration, sim):
    out = ration("doctor", "--sim=mem=8g,context=600m", env={"RATION_MEM": "512m"})
    assert out.returncode == 1
    (line,) = lines(out, "FAIL", "limit")
    assert "CUDA_ERROR_OUT_OF_MEMORY" in line and "smaller than a context" in line
    # Without a limit it is tried with one that is large enough for any card's.
    assert ration("doctor", "--sim=mem=8g,context=600m").returncode == 0


def test_operators_file(ration, sim, library, tmp_path):
    out = overlaid(ration, tmp_path, "CUDA_DEVICE_MEMORY_LIMIT=1g",
                   ["env", f"LD_PRELOAD={library}", ration.path, "doctor", "--sim=mem=8g"],
                   {"RATION_MEM": "7g", "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/dev/shm/ration-test-r"})
    assert any(line.endswith("1 GiB, from CUDA_DEVICE_MEMORY_LIMIT in /overrideEnv")
               for line in lines(out, "ok", "limit")), out.stdout + out.stderr
    assert any("RATION_MEM" in line and "/overrideEnv" in line for line in lines(out, "warn"))


def test_an_operators_limit_without_a_region(ration, sim, tmp_path):
    """A program that names another file is another tenant, and has the limit once more."""
    for text, is_told in (("RATION_MEM=1g", True), ("CUDA_DEVICE_SM_LIMIT=30", True), ("RATION_LOG=info", False),
                          ("RATION_MEM=1g\nRATION_REGION=/dev/shm/ration-test-r", False),
                          ("RATION_MEM=1g\nCUDA_DEVICE_MEMORY_SHARED_CACHE=/dev/shm/ration-test-r", False)):
        folder = tmp_path / str(len(text))
        folder.mkdir()
        out = overlaid(ration, folder, text, [ration.path, "doctor", "--sim=mem=8g"])
        assert any("RATION_REGION" in line for line in lines(out, "note", "configuration")) == is_told, out.stdout


def test_names_in_the_operators_file_that_nobody_reads(ration, sim, tmp_path):
    text = "# RATION_NOTE=1\n#CUDA_DEVICE_SM_LIMIT=9\nRATION_MEMORY=1g\nSOMETHING=else\nCUDA_DEVICE_MEM_LIMIT=1g\nno sign"
    out = overlaid(ration, tmp_path, text, [ration.path, "doctor", "--sim=mem=8g"])
    first, second = lines(out, "warn", "configuration")
    assert "RATION_MEMORY in /overrideEnv is set, but" in first
    assert "CUDA_DEVICE_MEM_LIMIT in /overrideEnv is set, but" in second


def test_run_does_not_go_over_the_operators_head(ration, tmp_path):
    out = overlaid(ration, tmp_path, "CUDA_DEVICE_MEMORY_LIMIT=1g",
                   [ration.path, "run", "--mem", "2g", "true"])
    assert out.returncode == 125
    assert "/overrideEnv" in out.stderr and "CUDA_DEVICE_MEMORY_LIMIT" in out.stderr


def test_run_does_not_loosen_the_operators_gpu_time(ration, tmp_path):
    out = overlaid(ration, tmp_path, "CUDA_DEVICE_SM_LIMIT=30", [ration.path, "run", "--sm", "90", "true"])
    assert out.returncode == 125
    assert "CUDA_DEVICE_SM_LIMIT in /overrideEnv; --sm cannot change them" in out.stderr


@pytest.mark.parametrize("text, option, says", [
    ("RATION_MEM=1g", ["--mem", "5g"], "the limits are set by RATION_MEM in /overrideEnv; --mem cannot change them"),
    ("RATION_MEM=1g", ["--mem", "512m"], "--mem cannot change them"),
    ("RATION_MEM=1g", ["--sm", "30", "--mem", "5g"], "--mem cannot change them"),
    ("CUDA_DEVICE_SM_LIMIT_0=30", ["--sm", "0:90"], "set by CUDA_DEVICE_SM_LIMIT_0 in /overrideEnv; --sm cannot"),
    ("RATION_MEM=4x", ["--mem", "5g"], "RATION_MEM in /overrideEnv: '4x'"),
    ("RATION_MEM=1g", ["--sm", "30"], None), ("RATION_NAME=x", ["--mem", "5g"], None), ("", ["--mem", "5g"], None)])
def test_limit_does_not_go_over_the_operators_head(ration, tmp_path, text, option, says):
    inner = f"{ration.path} limit t {' '.join(option)}; status=$?; {ration.path} limit t; exit $status"
    # The tenant begins where the file is not wrong.
    script = f"RATION_MEM=1g {ration.path} run --name t sh -c 'echo \"$1\" >/overrideEnv; {inner}' sh \"$1\""
    out = overlaid(ration, tmp_path, text if "4x" not in text else "", ["sh", "-c", script, "sh", text])
    assert out.returncode == (1 if says else 0), out.stderr
    assert says is None or (says in out.stderr and out.stderr.count("\n") == 1 and "->" not in out.stdout)
    assert says is not None or "->" in out.stdout


def test_run_does_not_leave_the_operators_region(ration, tmp_path):
    out = overlaid(ration, tmp_path, "CUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/x",
                   [ration.path, "run", "true"])
    assert out.returncode == 125
    assert "CUDA_DEVICE_MEMORY_SHARED_CACHE in /overrideEnv" in out.stderr


@pytest.mark.parametrize("name, value", [("RATION_MEM", "4x"), ("RATION_LOG", "loud"),
                                         ("CUDA_DEVICE_MEMORY_LIMIT_3", "lots"),
                                         ("CUDA_DEVICE_MEMORY_LIMIT_64", "1g")])
def test_configuration_that_cannot_be_understood(ration, sim, name, value):
    out = ration("doctor", "--sim", env={name: value})
    assert out.returncode == 1
    assert any(name in line and (value in line or "0 to 63" in line)
               for line in lines(out, "FAIL", "configuration"))


def test_variable_that_does_not_exist(ration, sim):
    out = ration("doctor", "--sim", env={"RATION_MEMORY": "1g"})
    assert any("RATION_MEMORY" in line for line in lines(out, "warn", "configuration"))
    # Nor is it said in the next line that all is well.
    assert lines(out, "ok", "configuration") == []
    assert lines(ration("doctor", "--sim"), "ok", "configuration") != []


def test_a_region_that_depends_on_the_folder(ration, sim, library, tmp_path):
    """Programs in two folders are two tenants, each with all of the limit."""
    env = {"LD_PRELOAD": library, "LD_LIBRARY_PATH": sim, "RATION_MEM": "1g"}
    for path, is_warned in (("x.region", True), ("./x.region", True), (tmp_path / "x.region", False)):
        out = ration("doctor", env={**env, "RATION_REGION": path}, cwd=tmp_path)
        assert any("begins with /" in line for line in lines(out, "warn", "region")) == is_warned


@pytest.mark.parametrize("name, meant", [
    ("CUDA_DEVICE_MEMORY_LIMITS", "CUDA_DEVICE_MEMORY_LIMIT"), ("CUDA_DEVICE_MEMORY_LIMIT0", "MEMORY_LIMIT is"),
    ("CUDA_DEVICE_MEM_LIMIT_0", "CUDA_DEVICE_MEMORY_LIMIT"), ("CUDA_MEMORY_LIMIT", "CUDA_DEVICE_MEMORY_LIMIT"),
    ("CUDA_DEVICE_MEMORY_LIMIT_O", "CUDA_DEVICE_MEMORY_LIMIT"), ("cuda_device_sm_limit", "CUDA_DEVICE_SM_LIMIT"),
    ("CUDA_DEVICE_SM_LIMTI", "CUDA_DEVICE_SM_LIMIT"), ("CUDA_DEVICE_CORE_LIMIT", "CUDA_DEVICE_SM_LIMIT"),
    ("GPU_CORE_UTILISATION_POLICY", "GPU_CORE_UTILIZATION_POLICY")])
def test_a_name_that_looks_like_a_schedulers(ration, sim, name, meant):
    out = ration("doctor", "--sim", env={name: "1"})
    (line,) = lines(out, "warn", "configuration")
    assert f"{name} is set, but nobody reads it; " in line and meant in line


def test_names_that_are_others_or_right(ration, sim):
    env = {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_DEVICE_MAX_CONNECTIONS": "8",
           "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50", "CUDA_DEVICE_MEMORY_LIMIT_0": "1g", "CUDA_HOME": "/",
           "CUDA_DEVICE_SM_LIMIT": "30", "GPU_CORE_UTILIZATION_POLICY": "default", "GPU_NUM": "1"}
    assert lines(ration("doctor", "--sim", env=env), "warn", "configuration") == []


def test_policy_that_does_not_exist(ration, sim):
    out = ration("doctor", "--sim", env={"GPU_CORE_UTILIZATION_POLICY": "Force"})
    (line,) = lines(out, "warn", "configuration")
    assert "is 'Force', which is none of force, disable and default" in line


def test_a_limit_that_outlives_its_variable(ration, sim, library, tmp_path):
    """The file keeps it for processes that come later, until one has limits of its own."""
    env = {"LD_PRELOAD": library, "CUDA_DEVICE_MEMORY_SHARED_CACHE": tmp_path / "r"}
    limits = {"CUDA_DEVICE_MEMORY_LIMIT": "1g", "CUDA_DEVICE_SM_LIMIT": "30"}
    out = ration("doctor", "--sim=mem=8g", env={**env, **limits})
    assert any(line.endswith("1 GiB, from CUDA_DEVICE_MEMORY_LIMIT") for line in lines(out, "ok", "limit"))
    said = lines(ration("doctor", "--sim=mem=8g", env=env), "ok", "limit")
    for amount, name in (("1 GiB", "CUDA_DEVICE_MEMORY_LIMIT"), ("GPU time 30 %", "CUDA_DEVICE_SM_LIMIT")):
        assert any(line.endswith(f"{amount}, kept from an earlier process of this file ({name})")
                   for line in said), said
    said = lines(ration("doctor", "--sim=mem=8g", env={**env, "RATION_MEM": "2g"}), "ok", "limit")
    assert any(line.endswith("2 GiB, from RATION_MEM") for line in said)


def test_library_that_is_not_there(ration, sim):
    out = ration("doctor", "--sim", env={"RATION_LIB": "/nonexistent/libration.so"})
    assert out.returncode == 1
    assert any("/nonexistent/libration.so" in line for line in lines(out, "FAIL", "preload"))
    # The rest is looked at all the same.
    assert lines(out, "ok", "driver") and lines(out, "ok", "kernel")


def test_where_the_list_of_locks_is_hidden(ration):
    assert any("can be followed" in line for line in lines(ration("doctor"), "ok", "kernel"))
    script = 'mount --bind /dev/null /proc/locks && exec "$@"'
    out = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", ration.path, "doctor"], env=ration.env,
                         text=True, capture_output=True, timeout=60, check=False)
    if "unshare" in out.stderr or "mount:" in out.stderr:
        pytest.skip("nothing can be mounted here")
    assert any("/proc/locks" in line for line in lines(out, "warn", "kernel"))


def test_library_that_is_another(ration, sim, tmp_path):
    """Something else under its name."""
    fake = tmp_path / "libration.so"
    shutil.copy(sim / "libnvidia-ml.so.1", fake)
    out = ration("doctor", "--sim", env={"RATION_LIB": fake})
    assert out.returncode == 1
    assert any(str(fake) in line for line in lines(out, "FAIL", "preload"))
    # The rest is looked at all the same.
    assert lines(out, "ok", "driver") and lines(out, "ok", "kernel")


def test_library_behind_another(ration, sim, library, tmp_path):
    """A preload that has a name of the driver's too: a linked program gets the first of them."""
    if not shutil.which("gcc"):
        pytest.skip("no gcc")
    source = tmp_path / "before.c"
    source.write_text("int cuInit(unsigned flags) { (void)flags; return 0; }\n")
    before = tmp_path / "before.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", before, source], check=True)
    env = {"LD_PRELOAD": f"{before}:{library}", "RATION_REGION": tmp_path / "r"}
    out = ration("doctor", "--sim", env=env)
    assert out.returncode == 1
    assert any(f"linked against libcuda: cuInit leads to {before}" in line
               for line in lines(out, "FAIL", "interception")), out.stdout
    env["LD_PRELOAD"] = f"{library}:{before}"
    assert ration("doctor", "--sim", env=env).returncode == 0


def test_two_copies_of_the_library(ration, sim, library, tmp_path):
    copy = tmp_path / "libration.so"
    shutil.copy(library, copy)
    env = {"LD_PRELOAD": f"{library}:{copy}", "RATION_REGION": tmp_path / "r"}
    out = ration("doctor", "--sim", env=env)
    warned = lines(out, "warn", "preload")
    assert any(str(copy) in line and "second copy" in line for line in warned), out.stdout


def test_another_limiting_library(ration, sim, tmp_path):
    if not shutil.which("gcc"):
        pytest.skip("no gcc")
    other = tmp_path / "libvgpu.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", other], check=True)
    out = ration("doctor", "--sim", env={"LD_PRELOAD": other})
    assert out.returncode == 1
    assert any(str(other) in line for line in lines(out, "FAIL", "preload"))


def test_region_that_cannot_be_had(ration, sim, library):
    env = {"LD_PRELOAD": library, "RATION_REGION": "/nonexistent/r"}
    out = ration("doctor", "--sim", env=env)
    assert out.returncode == 1
    assert any("/nonexistent cannot be looked at" in line for line in lines(out, "FAIL", "region"))
    assert lines(out, "FAIL", "driver")


def test_a_region_that_cannot_be_understood(ration, sim, library, tmp_path):
    """It may hold a limit: that there is none is not said."""
    image = region.blank()
    region.put(image, region.RATION_AT + 8, "I", 77)
    (tmp_path / "r").write_bytes(image)
    out = ration("doctor", "--sim", env={"LD_PRELOAD": library, "RATION_REGION": tmp_path / "r"})
    assert out.returncode == 1 and "may hold a limit" in out.stderr
    assert not lines(out, "ok", "limit")
    told, = lines(out, "FAIL", "limit")
    assert f"{tmp_path / 'r'} was made by another version of Ration (layout 77, this is {region.LAYOUT})" in told


def test_it_says_what_no_preload_can_reach(ration, sim):
    text = "\n".join(lines(ration("doctor", "--sim"), "note", "out of reach"))
    for word in ("static", "musl", "setuid", "dlmopen", "RTLD_DEEPBIND", "HMM"):
        assert word in text


def test_overlayfs_is_named(ration, sim, library, tmp_path):
    out = overlaid(ration, tmp_path, "", ["env", f"LD_PRELOAD={library}",
                                          "RATION_REGION=/var/tmp/r", ration.path, "doctor", "--sim"])
    assert any("overlayfs" in line for line in lines(out, "note", "region")), out.stdout + out.stderr
    assert lines(out, "FAIL") == []


@pytest.mark.parametrize("args, env, names", [(["--sim=mem=lots"], {}, "--sim: mem=lots: not understood"),
                                              (["--sim"], {"RATION_SIM": "colour=red"}, "RATION_SIM: 'colour'")])
def test_settings_that_the_software_gpu_refuses(ration, sim, args, env, names):
    """Said once, and nothing is tried with a GPU that does not start."""
    out = ration("doctor", *args, env=env)
    assert (out.returncode, out.stderr) == (1, "")
    (line,) = lines(out, "FAIL")
    assert line[6:].startswith("driver") and names in line and "nothing else was looked at" in line
    assert out.stdout.splitlines()[1:] == [line, "not healthy: 1 fault"]


def test_software_gpu_that_does_not_start(ration, sim, tmp_path):
    (tmp_path / "sim").write_text("something else")
    out = ration("doctor", "--sim")
    assert (out.returncode, out.stderr) == (1, "")
    assert "is no file of a software GPU" in lines(out, "FAIL", "driver")[0]


def test_settings_of_the_software_gpu_after_a_blank(ration):
    out = ration("doctor", "--sim", "mem=8g")
    assert out.returncode == 2
    assert "follow it without a blank: --sim=mem=8g" in out.stderr
