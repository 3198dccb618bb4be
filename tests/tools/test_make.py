"""What the Makefile's short names do, by the scripts behind them."""

import os
import re
import subprocess
from pathlib import Path

import conftest
import pytest

ROOT = Path(__file__).resolve().parents[2]


def script(name, **variables):
    env = {**conftest.clean_environment(), "RATION_BUILD": str(conftest.BUILD), **variables}
    return subprocess.run([ROOT / "scripts" / name], env=env, text=True, capture_output=True, timeout=60,
                          check=False)


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir())


@pytest.fixture
def places(tmp_path):
    """Two places; what a failing test has left there is forgotten."""
    pair = [{"PREFIX": "/opt/ration of mine", "DESTDIR": str(tmp_path / "a")},
            {"PREFIX": str(tmp_path / "b"), "DESTDIR": ""}]
    yield pair
    for place in pair:
        script("uninstall.sh", **place)


def test_each_place_is_removed_by_itself(places, tmp_path):
    for place in places:
        out = script("install.sh", **place)
        assert out.returncode == 0, out.stderr
    first, second = tmp_path / "a/opt/ration of mine", tmp_path / "b"
    assert "bin/ration" in files(first) and files(first) == files(second)
    out = script("uninstall.sh", **places[0])
    assert (out.returncode, out.stderr) == (0, "")
    assert out.stdout.count("-- Removed: ") > 10
    # With the folders that were made for it.
    assert not (tmp_path / "a").exists()
    assert "bin/ration" in files(second)
    out = script("uninstall.sh", **places[0])
    assert (out.returncode, out.stdout) == (1, "")
    assert "installed nothing with PREFIX=/opt/ration of mine" in out.stderr
    assert f"it has with PREFIX={second}" in out.stderr


def test_the_installed_header_stands_by_itself(places, tmp_path):
    """What it includes is installed too."""
    script("install.sh", **places[1])
    source = tmp_path / "monitor.c"
    source.write_text("#include <ration/region.h>\nint main(void) { return sizeof(struct ration_region) == 0; }\n")
    out = subprocess.run(["cc", "-std=c11", "-pedantic", "-Wall", "-Werror", "-fsyntax-only",
                          f"-I{tmp_path / 'b/include'}", source],
                         text=True, capture_output=True, timeout=60, check=False)
    assert (out.returncode, out.stderr) == (0, "")


def test_what_others_put_there_stays(places, tmp_path):
    place, folder = places[1], tmp_path / "b"
    (folder / "lib").mkdir(parents=True)
    (folder / "share/man/man1").mkdir(parents=True)
    (folder / "lib/other").write_text("other")
    script("install.sh", **place)
    # Of another installation; and gone.
    (folder / "bin/ration").write_text("another version")
    (folder / "lib/libvgpu.so").unlink()
    (folder / "lib/libvgpu.so").symlink_to("elsewhere")
    (folder / "include/ration/region.h").unlink()
    out = script("uninstall.sh", **place)
    assert out.returncode == 0, out.stderr
    assert files(folder) == ["bin/ration", "lib/libvgpu.so", "lib/other"]
    assert f"Left, it is not what was installed: {folder}/bin/ration" in out.stdout
    assert "region.h" not in out.stdout
    # A folder that was there before stays, empty or not.
    assert (folder / "share/man/man1").is_dir() and not (folder / "include").exists()


def test_installing_twice_is_removed_once(places, tmp_path):
    for _ in range(2):
        script("install.sh", **places[1])
    assert script("uninstall.sh", **places[1]).returncode == 0
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("place", [{"PREFIX": "usr"}, {"DESTDIR": "stage", "PREFIX": "/usr"}])
def test_a_relative_place_is_refused(place):
    out = script("install.sh", **place)
    assert (out.returncode, out.stdout) == (2, "")
    assert "begins with /" in out.stderr and next(iter(place.values())) in out.stderr


def test_every_target_has_a_line_of_help():
    text = (ROOT / "Makefile").read_text()
    targets = set(re.search(r"^\.PHONY: (.*)$", text, re.M)[1].split()) - {"all", "help"}
    out = subprocess.run(["make", "-s", "-C", ROOT, "help"], text=True, capture_output=True, check=True,
                         env={"PATH": os.environ["PATH"]})
    assert targets <= set(re.findall(r"^make (\S+)", out.stdout, re.M))


@pytest.mark.parametrize("target", ["install", "uninstall"])
@pytest.mark.parametrize("how", ["argument", "environment"])
def test_a_prefix_reaches_the_script(tmp_path, target, how):
    """From `make` on, which builds first: the scripts are exchanged for one that says what it was given."""
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text().replace("install: all\n", "install:\n"))
    (tmp_path / "scripts").mkdir()
    for name in ("install.sh", "uninstall.sh"):
        said = tmp_path / "scripts" / name
        said.write_text('#!/bin/sh\necho "${0##*/} $PREFIX $DESTDIR"\n')
        said.chmod(0o755)
    given = {"PREFIX": "/opt/x", "DESTDIR": "/stage"}
    arguments = [f"{k}={v}" for k, v in given.items()] if how == "argument" else []
    out = subprocess.run(["make", "-s", target, *arguments], cwd=tmp_path, text=True, capture_output=True,
                         check=True, timeout=60,
                         env={"PATH": os.environ["PATH"], **({} if arguments else given)})
    assert out.stdout == f"{target}.sh /opt/x /stage\n"


def commands_of_the_readme():
    """(command, its lines of output) of each block that a reader can type after `make`."""
    for block in re.findall(r"^```console\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S):
        parts = re.split(r"^\$ ", block, flags=re.M)
        for command, *output in (part.splitlines() for part in parts if part):
            if "--sim" in command or "build/sim" in command or "4x" in command:
                yield command, output


@pytest.mark.parametrize("command, output", commands_of_the_readme())
def test_what_the_readme_shows(sim, tmp_path, command, output):
    """Lines may come in another order: standard output waits in a pipe."""
    (tmp_path / "build").symlink_to(conftest.BUILD)
    env = {**conftest.clean_environment(), "PATH": f"{conftest.BUILD}:{os.environ['PATH']}",
           "RATION_SIM_FILE": str(tmp_path / "sim"), "RATION_DIR": str(tmp_path / "tenants")}
    command = command.replace("/tmp/x.cache", "x.cache").replace("$PWD/build", str(conftest.BUILD))
    out = subprocess.run(command, shell=True, env=env, text=True, timeout=60, check=False, cwd=tmp_path,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert sorted(out.stdout.splitlines()) == sorted(output)


def test_the_demo_builds_what_it_starts():
    """And not the tests, which take longer than all else."""
    rule = re.search(r"^demo:.*?--target (.*?)$", (ROOT / "Makefile").read_text(), re.M | re.S)
    out = subprocess.run(["ninja", "-C", conftest.BUILD, "-t", "commands", *rule[1].split()],
                         text=True, capture_output=True, timeout=60, check=True)
    for made in ("libration.so", "ration", "sim/libcuda.so.1", "sim/libnvidia-ml.so.1", "examples/hog"):
        assert re.search(rf" -o {re.escape(made)} ", out.stdout), made
    assert "tests/" not in out.stdout


def test_the_check_of_a_gpu_without_one(tmp_path):
    """In a place where nvidia-smi cannot be found."""
    (tmp_path / "python3").symlink_to("/usr/bin/python3")
    out = subprocess.run(["/usr/bin/python3", ROOT / "tests/gpu/run", "--build", conftest.BUILD],
                         env={"PATH": str(tmp_path)}, text=True, capture_output=True, timeout=60, check=False)
    assert (out.returncode, out.stdout) == (1, "")
    assert out.stderr.startswith("check-gpu: there is no NVIDIA GPU here") and out.stderr.count("\n") == 1
