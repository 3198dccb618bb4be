"""A process that never touches the GPU notices nothing but the mapping."""
import os
import re
import shutil
import subprocess
import sys

import pytest

from conftest import BUILD, LIBRARY, PROGRAMS, is_root, needs

# Standard output of plain.c.
SAID = ["found", "not found", "child 3, signal 1"]
GETPPID, FUTEX = {"x86_64": ("110", "202"), "aarch64": ("173", "98")}[os.uname().machine]


def system_calls(place, name, preload):
    """Before and after the mark of plain.c. Open files with their paths."""
    out = place.folder / name
    done = subprocess.run([PROGRAMS / "trace", out, PROGRAMS / "plain", "5"], capture_output=True,
                          env={"LD_PRELOAD": str(LIBRARY)} if preload else {}, check=False)
    needs(done.returncode != 77, "ptrace is not allowed here")
    assert (done.returncode, done.stderr) == (5, b"")
    assert done.stdout.decode().splitlines() == SAID
    calls = out.read_text().splitlines()
    mark = calls.index(GETPPID)
    # Whether a thread has to wait for another, and who is first, differs from run to run.
    return calls[:mark], sorted(call for call in calls[mark:] if call != FUTEX)


@pytest.mark.plain
def test_the_system_calls_are_those_without_us(place):
    """One more file is opened, and that is the library; after main() begins there is nothing."""
    loader, program = system_calls(place, "ours", True)
    plain_loader, plain_program = system_calls(place, "plain", False)
    assert len(program) > 10 and program == plain_program
    opened = [line.split()[1] for line in loader if " " in line]
    assert [path for path in opened if path != str(LIBRARY)] == \
        [line.split()[1] for line in plain_loader if " " in line]
    assert opened.count(str(LIBRARY)) == 1


@pytest.mark.plain
def test_the_mapping_is_all_there_is_to_see(place):
    ours, plain = place.run("plain", "maps").lines, place.run("plain", "maps", preload=()).lines
    assert [line for line in ours if not line.endswith("libration.so")] == plain
    assert ours[-1] == "Threads:\t1"
    assert not place.region.exists() and not place.sim_file.exists()


def test_status_and_output_stay_as_they_are(place):
    for status in (0, 5, 255):
        assert place.run("plain", status, status=status).lines == SAID


# field fault 36: every program of a container failed for want of libcuda.so.1
@pytest.mark.plain
@pytest.mark.parametrize("argv", [
    ["/bin/true"], ["/bin/sh", "-c", "ls / | wc -l >/dev/null; exit 0"], ["/usr/bin/env"],
    [sys.executable, "-c", "import threading, ctypes, subprocess; subprocess.run(['true'])"],
])
def test_ordinary_programs(argv):
    """In an environment with nothing but the preload: no driver, no configuration."""
    done = subprocess.run(argv, env={"LD_PRELOAD": str(LIBRARY)}, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.plain
def test_a_link_by_hami_s_name_is_the_same_library(place):
    assert place.run("linked", preload=[LIBRARY.with_name("libvgpu.so")], RATION_MEM="128m").lines[2] \
        == "more 2"


def setuid_copy(place, program):
    """A copy that runs as root for everybody."""
    needs(is_root(), "only root can make a setuid program for another user")
    needs(not os.statvfs(place.folder).f_flag & os.ST_NOSUID, "the temporary folder is nosuid")
    copy = place.folder / "setuid"
    shutil.copy(PROGRAMS / program, copy)
    copy.chmod(0o4755)
    return copy


@pytest.mark.plain
def test_a_setuid_program_does_not_load_it(open_place):
    """The loader leaves a preload with a path out of it; the program runs on as it would."""
    place = open_place
    copy = setuid_copy(place, "plain")
    done = place.run(copy, "maps", user=65534)
    assert "libration" not in done.out and "libc.so" in done.out
    assert place.run(copy, 9, user=65534, status=9).lines == SAID


@pytest.mark.plain
def test_musl(place):
    """musl loads the library too, and finds all that it asks for."""
    program = PROGRAMS / "plain_musl"
    needs(program.exists(), "no musl-gcc (package musl-tools)")
    for status in (0, 7):
        assert place.run(program, status, status=status).lines == SAID
    assert "libration.so" in place.run(program, "maps").out


def clang_programs():
    return sorted(item.name for item in PROGRAMS.glob("clang_*"))


@pytest.mark.plain
@pytest.mark.parametrize("sanitizer", ["address", "thread", "undefined"])
def test_programs_that_clang_instrumented(place, sanitizer):
    """Sanitizers look functions up before they are set up themselves."""
    name = f"clang_{sanitizer}"
    needs((PROGRAMS / name).exists(), f"no clang with -fsanitize={sanitizer}")
    launcher = ["setarch", "-R"] if sanitizer == "thread" else []
    assert place.run(*launcher, PROGRAMS / name, RATION_MEM="128m").lines == \
        ["cuMemAlloc_v2 libration.so", "cuGetErrorName libcuda.so.1", "more 2"]


# field fault 99: the file was written over in place
@pytest.mark.plain
def test_the_library_is_replaced_while_it_runs(place):
    """By rename, as it is installed: who runs keeps the old one."""
    copy = place.folder / "libration.so"
    shutil.copy(LIBRARY, copy)
    program = place.start("quota", "hold", 1, preload=[copy], RATION_MEM="256m").await_word("held")
    shutil.copy(LIBRARY, place.folder / "new")
    os.rename(place.folder / "new", copy)
    program.go().end()


@pytest.mark.plain
def test_an_installation_over_running_programs(place):
    """It makes new files: what is mapped is never written into."""
    needs(shutil.which("cmake"), "no cmake")
    install = ["cmake", "--install", BUILD, "--prefix", place.folder / "root"]
    subprocess.run(install, check=True, capture_output=True)
    copy = place.folder / "root" / "lib" / "libration.so"
    program = place.start("quota", "hold", 1, preload=[copy], RATION_MEM="256m").await_word("held")
    # Of another version: by its length.
    with open(copy, "ab") as f:
        f.write(b"x")
    before = copy.stat().st_ino
    subprocess.run(install, check=True, capture_output=True)
    assert copy.read_bytes() == LIBRARY.read_bytes() and copy.stat().st_ino != before
    program.go().end()


# field fault 137, 32: checked over all symbols by tests/lint/check-library
def test_no_symbol_of_glibc_s_own(place):
    out = subprocess.run(["nm", "-D", "--undefined-only", LIBRARY], capture_output=True, text=True,
                         check=True).stdout
    assert not re.search(r"_dl_sym|GLIBC_PRIVATE", out)
