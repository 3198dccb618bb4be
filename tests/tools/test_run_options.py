"""`ration run`: what is on the command line and in the environment."""

import ctypes
import json
import os
import platform
import re
import shutil

import pytest

BAD_SIZES = ["4x", "-1", "", "1.5.2g", "99999999999999g", "0", "0g", "1.5", "g", "0:", "0:1g,",
             ",1g", "gpu0:1g", "GPU-1:1g", "0:1g:2g", "1g 2g"]


BAD_PERCENTS = ["0", "101", "-5", "abc", "30x", "30%%", "", "1:", "2.5", "0:30,0:50", "30,40", "x:30"]


@pytest.mark.parametrize("pct", BAD_PERCENTS)
def test_bad_percent(ration, pct):
    out = ration("run", f"--sm={pct}", "touch", "/nonexistent/never")
    assert out.returncode == 2
    assert out.stderr.startswith("ration run: --sm: '") and "such as" in out.stderr
    assert ration.regions() == []


@pytest.mark.parametrize("size", BAD_SIZES)
def test_bad_size(ration, size):
    out = ration("run", f"--mem={size}", "touch", "/nonexistent/never")
    assert out.returncode == 2
    assert out.stderr.startswith("ration run: --mem: ")
    assert len(out.stderr.splitlines()) == 1
    assert "such as" in out.stderr
    assert ration.regions() == []


def test_bad_size_names_the_item(ration):
    assert "'4x'" in ration("run", "--mem", "0:1g,1:4x", "true").stderr


@pytest.mark.parametrize("size, spec", [("4Gi", "4Gi"), ("1.5g", "1.5g"), ("512 MiB", "512 MiB")])
def test_good_size_reaches_the_program(ration, size, spec):
    out = ration("run", "--mem", size, "sh", "-c", "echo $RATION_MEM")
    assert out.returncode == 0
    assert out.stdout == spec + "\n"


def test_several_limits_are_one_specification(ration, sim):
    out = ration("run", "--mem", "1g", "--mem", "2g", "true")
    assert out.returncode == 2
    assert "twice" in out.stderr
    out = ration("run", "--sim=count=2,mem=8g", "--mem", "0:1g", "--mem", "1:2g", "sh", "-c",
                 "echo $RATION_MEM")
    assert out.stdout == "0:1g,1:2g\n"


def test_too_many_limits(ration):
    specs = [f"GPU-{i:08x}-0000-0000-0000-000000000000:1g" for i in range(60)]
    out = ration("run", *[f"--mem={spec}" for spec in specs], "true")
    assert out.returncode == 2
    assert "too many" in out.stderr


@pytest.mark.parametrize("args", [[], ["--"], ["--mem", "1g"], ["--mem", "1g", "--"], [""]])
def test_missing_command(ration, args):
    out = ration("run", *args)
    assert out.returncode == 2
    assert "the command to start is missing" in out.stderr


def test_options_after_the_command_are_its_own(ration):
    out = ration("run", "echo", "--mem", "x", "-n", "--", "--help")
    assert out.stdout == "--mem x -n -- --help\n"


def test_two_dashes_end_the_options(ration):
    assert ration("run", "--mem", "1g", "--", "echo", "-n", "a").stdout == "a"


@pytest.mark.parametrize("name", ["", "a/b", "../x", ".hidden", "-x", "a b", "x" * 64, "é"])
def test_bad_name(ration, name):
    out = ration("run", f"--name={name}", "true")
    assert out.returncode == 2
    assert "--name" in out.stderr and f"'{name}'" in out.stderr
    assert ration.regions() == []


def tenant_inside(ration, *options, env=None):
    """The tenant as `ration ps` shows it to a program in it."""
    out = ration("run", *options, ration.path, "ps", "--json", env=env)
    assert out.returncode == 0, out.stderr
    tenants = [t for t in json.loads(out.stdout)["tenants"]
               if t["path"].startswith(str(ration.directory))]
    assert len(tenants) == 1
    return tenants[0]


def test_name_and_limit_stand_before_the_program_starts(ration):
    tenant = tenant_inside(ration, "--mem", "3g", "--name", "a.b_c-1")
    assert tenant["name"] == "a.b_c-1"
    assert os.path.dirname(tenant["path"]) == str(ration.directory / "a.b_c-1.tenant")
    assert tenant["limits"] == "3g"
    assert tenant["limits_from"] == "--mem of ration run"
    assert tenant["alive"] is True


def test_name_is_made_from_the_command(ration):
    assert tenant_inside(ration)["name"].startswith("ration-")
    assert ration("run", "--", "/bin/sh", "-c", "echo $RATION_NAME").stdout.startswith("sh-")


def test_limit_of_the_environment_goes_on_to_hold(ration):
    tenant = tenant_inside(ration, env={"RATION_MEM": "2g"})
    assert (tenant["limits"], tenant["limits_from"]) == ("2g", "RATION_MEM")
    tenant = tenant_inside(ration, env={"CUDA_DEVICE_MEMORY_LIMIT_1": "3000m"})
    assert (tenant["limits"], tenant["limits_from"]) == ("1:3000m", "CUDA_DEVICE_MEMORY_LIMIT_1")


@pytest.mark.parametrize("options, spec", [
    (["--sm", "30"], "30"), (["--sm=30%"], "30%"), (["-t", "100"], "100"),
    (["--sm", "0:30", "--sm", "50"], "0:30,50")])
def test_gpu_time_stands_before_the_program_starts(ration, options, spec):
    tenant = tenant_inside(ration, *options)
    assert (tenant["sm_limits"], tenant["sm_limits_from"]) == (spec, "--sm of ration run")
    assert (tenant["sm_policy"], tenant["limits"]) == ("force", None)


def test_gpu_time_of_the_environment_goes_on_to_hold(ration):
    def inside(*options, **env):
        tenant = tenant_inside(ration, *options, env=env)
        return tenant["sm_limits"], tenant["sm_limits_from"], tenant["sm_policy"]

    assert inside(RATION_SM="20") == ("20", "RATION_SM", "force")
    assert inside(CUDA_DEVICE_SM_LIMIT_1="20") == ("1:20", "CUDA_DEVICE_SM_LIMIT_1", "default")
    theirs = {"CUDA_DEVICE_SM_LIMIT": "20", "GPU_CORE_UTILIZATION_POLICY": "disable"}
    assert inside(**theirs) == ("20", "CUDA_DEVICE_SM_LIMIT", "disable")
    # The two kinds go by themselves.
    assert inside("--mem", "1g", **theirs) == ("20", "CUDA_DEVICE_SM_LIMIT", "disable")
    assert inside("--sm", "30", **theirs) == ("30", "--sm of ration run", "force")
    assert tenant_inside(ration, "--sm", "30", env={"RATION_MEM": "1g"})["limits"] == "1g"
    assert inside("--sm", "30", RATION_SM="x", CUDA_DEVICE_SM_LIMIT="y")[0] == "30"


@pytest.mark.parametrize("options, env, passed_on", [
    (["--sm", "30"], {}, "30"), ([], {"CUDA_DEVICE_SM_LIMIT": "30"}, "30"),
    ([], {"CUDA_DEVICE_SM_LIMIT": "0"}, None), (["--mem", "1g"], {}, None),
    ([], {"CUDA_DEVICE_SM_LIMIT": "30", "GPU_CORE_UTILIZATION_POLICY": "disable"}, None)])
def test_gpu_time_that_the_program_is_told(ration, options, env, passed_on):
    out = ration("run", *options, "env", env=env)
    got = dict(v.split("=", 1) for v in out.stdout.splitlines() if "=" in v)
    assert got.get("RATION_SM") == passed_on
    assert not set(got) & {"CUDA_DEVICE_SM_LIMIT", "GPU_CORE_UTILIZATION_POLICY"}


def test_command_line_goes_before_the_environment(ration):
    env = {"RATION_MEM": "4x", "CUDA_DEVICE_MEMORY_LIMIT": "-1"}
    assert tenant_inside(ration, "--mem", "1g", env=env)["limits"] == "1g"


@pytest.mark.parametrize("name, value", [("RATION_MEM", "4x"), ("RATION_LOG", "loud"),
                                         ("CUDA_DEVICE_MEMORY_LIMIT_0", "1.5.2g"),
                                         ("RATION_SM", "30x"), ("CUDA_DEVICE_SM_LIMIT", "lots")])
def test_bad_environment(ration, name, value):
    out = ration("run", "true", env={name: value})
    assert out.returncode == 2
    assert name in out.stderr and f"'{value}'" in out.stderr
    assert ration.regions() == []


def test_limit_of_a_device_that_cannot_be(ration):
    out = ration("run", "true", env={"CUDA_DEVICE_MEMORY_LIMIT_99": "1g"})
    assert out.returncode == 2
    assert "CUDA_DEVICE_MEMORY_LIMIT_99" in out.stderr and "0 to 63" in out.stderr
    # What does not count is not looked at.
    env = {"CUDA_DEVICE_MEMORY_LIMIT_99": "1g"}
    assert ration("run", "--mem", "1g", "true", env=env).returncode == 0
    assert ration("run", "true", env={**env, "RATION_MEM": "1g"}).returncode == 0


def test_schedulers_variables_do_not_reach_the_program(ration):
    env = {"CUDA_DEVICE_MEMORY_LIMIT": "1g", "CUDA_DEVICE_MEMORY_LIMIT_0": "0",
           "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/tmp/x", "CUDA_DISABLE_CONTROL": "true",
           "CUDA_HOME": "/cuda"}
    out = ration("run", "--mem", "1g", "env", env=env)
    assert [v for v in out.stdout.splitlines() if v.startswith("CUDA_")] == ["CUDA_HOME=/cuda"]


def test_where_memory_may_lie_is_passed_on(ration):
    """Who comes when the tenant's file has gone makes it again as it was."""
    def said(*options, env=None):
        out = ration("run", *options, "env", env=env or {})
        assert out.returncode == 0, out.stderr
        return {line.split("=", 1)[0]: line.split("=", 1)[1] for line in out.stdout.splitlines()
                if re.match("RATION_(MOVABLE|OVERSUBSCRIBE|RESIDENT|HOST)=", line)}

    assert not said()
    assert said("--movable") == {"RATION_MOVABLE": "true"}
    assert said("--resident", "1g") == {"RATION_MOVABLE": "true", "RATION_OVERSUBSCRIBE": "true",
                                        "RATION_RESIDENT": str(1 << 30)}
    assert said("--host", "512m")["RATION_HOST"] == str(512 << 20)
    assert said(env={"CUDA_OVERSUBSCRIBE": "true"})["RATION_OVERSUBSCRIBE"] == "true"


def test_environment_of_the_program(ration):
    out = ration("run", "--name", "t", "env", env={"LD_PRELOAD": ""})
    got = dict(v.split("=", 1) for v in out.stdout.splitlines() if "=" in v)
    assert os.path.dirname(got["RATION_REGION"]) == str(ration.directory / "t.tenant")
    assert got["RATION_NAME"] == "t"
    assert got["RATION_LOG"] == "warn"
    assert "RATION_MEM" not in got
    assert got["LD_PRELOAD"].endswith("/libration.so")


def test_log_level_that_is_set_stays(ration):
    out = ration("run", "sh", "-c", "echo $RATION_LOG", env={"RATION_LOG": "error"})
    assert out.stdout == "error\n"


def test_other_preloads_stay(ration):
    # A name that is not there: the dynamic linker complains and goes on.
    out = ration("run", "sh", "-c", "echo $LD_PRELOAD", env={"LD_PRELOAD": "libnone.so"})
    assert out.stdout.strip().endswith("/libration.so:libnone.so")


def test_tenants_do_not_nest(ration):
    out = ration("run", ration.path, "run", "true")
    assert out.returncode == 125
    assert "inside a tenant" in out.stderr and "RATION_REGION" in out.stderr


def test_library_that_is_not_there(ration):
    out = ration("run", "true", env={"RATION_LIB": "/nonexistent/libration.so"})
    assert out.returncode == 125
    assert "RATION_LIB" in out.stderr and "/nonexistent/libration.so" in out.stderr


@pytest.mark.parametrize("kind", ["text", "empty", "directory", "pipe", "another"])
def test_library_that_is_none(ration, sim, tmp_path, kind):
    """The linker passes over what it cannot preload: the program would run without a limit."""
    path = tmp_path / "libration.so"
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "another":
        shutil.copy(sim / "libnvidia-ml.so.1", path)
    else:
        path.write_text("no library\n" * 99 if kind == "text" else "")
    out = ration("run", "--mem", "1g", "echo", "it runs", env={"RATION_LIB": path})
    assert (out.returncode, out.stdout) == (125, "")
    assert str(path) in out.stderr and "RATION_LIB" in out.stderr and out.stderr.count("\n") == 1
    assert ration.regions() == []


def test_library_where_the_linker_would_cut_its_path(ration, tmp_path):
    lib = tmp_path / "a b" / "libration.so"
    lib.parent.mkdir()
    lib.write_bytes(b"")
    out = ration("run", "true", env={"RATION_LIB": lib})
    assert out.returncode == 125
    assert str(lib) in out.stderr


def test_software_gpu_comes_before_the_driver(ration, sim):
    script = "echo $LD_LIBRARY_PATH; echo $RATION_SIM"
    out = ration("run", "--sim=mem=8g,count=2", "sh", "-c", script, env={"LD_LIBRARY_PATH": "/x"})
    assert out.stdout.splitlines() == [f"{sim}:/x", "mem=8g,count=2"]
    out = ration("run", "--sim", "sh", "-c", script, env={"RATION_SIM": "mem=4g"})
    assert out.stdout.splitlines() == [str(sim), "mem=4g"]


def test_unknown_device(ration, sim):
    out = ration("run", "--sim=count=2,mem=8g", "--mem", "2:1g", "true")
    assert out.returncode == 2
    assert "no device '2'" in out.stderr
    assert out.stderr.count("GPU-") == 2
    out = ration("run", "--sim=count=2,mem=8g", "--mem", "1g,GPU-00000000:1g", "true")
    assert out.returncode == 2
    assert "GPU-00000000" in out.stderr
    out = ration("run", "--sim=count=2,mem=8g", "--sm", "2:30", "true")
    assert (out.returncode, "--sm: there is no device '2'" in out.stderr) == (2, True)
    assert ration.regions() == []


def test_known_device(ration, sim):
    uuid = "GPU-11111111-2222-3333-4444-555555555555"
    for who in ("0", uuid, uuid[:12]):
        out = ration("run", f"--sim=mem=8g,uuid={uuid}", "--mem", f"{who}:1g", "true")
        assert (out.returncode, out.stderr) == (0, "")


@pytest.mark.parametrize("limit", ["10", "4g,0:1000", "0:10,4g"])
def test_limit_without_a_unit_warns(ration, sim, limit):
    out = ration("run", "--sim=mem=8g", "--mem", limit, "true")
    assert len(out.stderr.splitlines()) == 1
    assert "warning: --mem" in out.stderr and "in bytes" in out.stderr
    assert ration("run", "true", env={"CUDA_DEVICE_MEMORY_LIMIT": "10"}).stderr == ""


@pytest.mark.parametrize("limit", ["512k", "0:512k,4g", "10b"])
def test_limit_under_what_any_program_needs_warns(ration, sim, limit):
    out = ration("run", "--sim=mem=8g", "--mem", limit, "true")
    assert out.stderr.startswith("ration run: warning: --mem: ")
    assert out.stderr.endswith("is less than any program needs\n") and out.stderr.count("\n") == 1


def test_limit_above_the_card_warns(ration, sim):
    """Of what CUDA counts, which the library knows: one line, in a program that uses the GPU."""
    verify = sim.parent / "examples/verify"
    out = ration("run", "--sim=mem=8g,reserved=512m", "--mem", "0:9g", verify)
    assert (out.returncode, out.stdout) == (0, "ok\n")
    assert len(out.stderr.splitlines()) == 1
    assert "warning" in out.stderr and "9216 MiB" in out.stderr and "8192 MiB" in out.stderr
    assert ration("run", "--sim=mem=8g,reserved=512m", "--mem", "0:9g", "true").stderr == ""


def test_device_that_nobody_can_look_up_is_left_to_the_library(ration):
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
        pytest.skip("an NVML is here")
    except OSError:
        pass
    out = ration("run", "--mem", "0:1g,1:1g", "--sm", "0:30", "true")
    assert (out.returncode, out.stderr.count("\n")) == (0, 1)
    assert "note: --mem: there is no NVML here to say whether device '0' exists" in out.stderr
    assert ration("run", "--mem", "1g", "true").stderr == ""


@pytest.mark.parametrize("args, env, says", [
    (["--sim=mem=8x"], {}, "--sim: mem=8x: not understood; mem takes a size"),
    (["--sim=colour=red"], {}, "--sim: 'colour': no such setting"),
    (["--sim"], {"RATION_SIM": "count=0"}, "RATION_SIM: count=0: not understood")])
def test_settings_that_the_software_gpu_refuses(ration, sim, args, env, says):
    out = ration("run", *args, "true", env=env)
    assert (out.returncode, out.stdout) == (2, "")
    assert out.stderr.startswith(f"ration run: {says}") and out.stderr.count("\n") == 1
    assert ration.regions() == []


def test_software_gpu_that_does_not_start(ration, sim, tmp_path):
    (tmp_path / "sim").write_text("something else")
    out = ration("run", "--sim", "true")
    assert out.returncode == 125
    assert "the software GPU does not start: " in out.stderr and "is no file of a software GPU" in out.stderr


def test_settings_of_the_software_gpu_after_a_blank(ration):
    out = ration("run", "--sim", "mem=8g", "true")
    assert out.returncode == 2
    assert "--sim=mem=8g" in out.stderr


@pytest.mark.parametrize("place", ["lib", "lib/ration", "lib64", f"lib/{platform.machine()}-linux-gnu"])
def test_installed_under_a_prefix(ration, sim, tmp_path, place):
    command = tmp_path / "bin" / "ration"
    library = tmp_path / place / "libration.so"
    gpu = tmp_path / place.removesuffix("/ration") / "ration" / "sim"
    for target, source in ((command, ration.path), (library, sim.parent / "libration.so"),
                           (gpu / "libcuda.so.1", sim / "libcuda.so.1")):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    ration.path = str(command)
    out = ration("run", "--sim", "sh", "-c", "echo $LD_PRELOAD; echo $LD_LIBRARY_PATH")
    assert out.stderr == ""
    assert out.stdout.splitlines() == [str(library), str(gpu)]


def test_installed_without_its_parts(ration, tmp_path):
    command = tmp_path / "bin" / "ration"
    command.parent.mkdir()
    shutil.copy(ration.path, command)
    ration.path = str(command)
    out = ration("run", "true")
    assert out.returncode == 125
    assert "libration.so" in out.stderr and "RATION_LIB" in out.stderr
    assert "software GPU" in ration("run", "--sim", "true").stderr
