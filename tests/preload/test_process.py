"""Threads, children, successors, signals and ends: a charge is its owner's and goes with it."""
import fcntl
import os
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest

from conftest import (BLOCK, BUILD, CONTEXT, HAMI_PROC_BYTES, HAMI_PROCS, MIB,
                      NOT_INITIALIZED, PROGRAMS, is_root, needs)

SLOTS_SHOWN = 64
OPERATING_SYSTEM = 304


def free_slots_are_zero(place):
    """Some monitors add up every slot, whatever its status: a free one holds nothing."""
    for i in range(SLOTS_SHOWN):
        at = HAMI_PROCS + HAMI_PROC_BYTES * i
        if place.words(at + 1928, "i")[0] == 0:
            assert place.words(at + 8, "128Q") == (0,) * 128


@pytest.mark.parametrize("driver", ["sim", "preload/slow"])
def test_32_threads_at_once_take_one_slot(place, driver):
    place.settings["LD_LIBRARY_PATH"] = f"{BUILD / driver}:{BUILD / 'sim'}"
    program = place.start("process", "threads", RATION_MEM="1g").await_word("done")
    assert place.slots() == {program.pid: CONTEXT + 32 * BLOCK} == place.truth()
    program.go().end()
    free_slots_are_zero(place)


# field faults 107, 112: children of a server that forks before it uses the GPU
@pytest.mark.parametrize("how", [[], ["raw"]])
def test_children_made_before_the_first_use(place, how):
    program = place.start("process", "early-fork", *how, RATION_MEM="1g").await_word("held")
    children = [int(line.split()[1]) for line in program.said if line.startswith("child")]
    assert set(place.slots()) == set(children) and len(children) == 4
    assert place.charged() == 4 * CONTEXT + 100 * MIB == sum(place.truth().values())
    assert sorted(place.slots().values()) == [CONTEXT + i * 10 * MIB for i in (1, 2, 3, 4)]
    program.go().end()
    free_slots_are_zero(place)


# field fault 109: a child that ended took its parent's charge with it
@pytest.mark.parametrize("how", [[], ["raw"]])
def test_a_child_made_after_the_first_use(place, how):
    # What the parent had noted down is out of the child's reach, and no leak of the child's.
    place.settings["ASAN_OPTIONS"] = "detect_leaks=0"
    program = place.start("process", "late-fork", *how, RATION_MEM="1g").await_word("end")
    assert place.slots() == {program.pid: CONTEXT}
    answers = program.said[:-1]
    program.go().end()
    plain = place.start("process", "late-fork", *how, preload=()).await_word("end")
    assert answers == plain.said[:-1] and answers[0] == f"alloc {NOT_INITIALIZED}"
    plain.go().end()


@pytest.mark.parametrize("there", ["nothing", "another"])
def test_another_root_directory(place, there):
    """The region's file is opened by its path to give back what the dead hold; it leads nowhere, or elsewhere."""
    needs(is_root(), "only root can change the root directory")
    # There is no /proc for the leak checker there.
    place.settings.update(RATION_MEM=512 * MIB, ASAN_OPTIONS="detect_leaks=0:verify_asan_link_order=0")
    root = place.folder / "root"
    root.mkdir()
    if there == "another":
        decoy = Path(f"{root}{place.region}")
        decoy.parent.mkdir(parents=True)
        decoy.write_bytes(bytes(1 << 20))
    program = place.start("process", "new-root", root, 400).await_word("ready")
    holder = place.start("quota", "hold", 300).await_word("held")
    holder.kill()
    program.go().await_word("changed")
    assert place.charged() == CONTEXT
    assert program.go().end().err == ""


def test_children_made_while_threads_allocate(place):
    place.run("process", "busy-fork", RATION_MEM="256m")


# field fault 24: two threads of one process tore what a monitor reads
def test_a_monitor_reads_whole_figures(place):
    program = place.start("process", "churn", RATION_MEM="256m").await_word("busy")
    index = list(place.slots()).index(program.pid)
    monitor = place.start("observe", index, "region", preload=()).await_word("watching")
    time.sleep(0.7)
    seen = monitor.end().values
    assert seen["whole"] > 100 and seen["torn"] == 0
    program.go().end()


# field fault 114: after exec the same pid had two slots
def test_a_program_that_becomes_another(place):
    program = place.start("process", "exec", PROGRAMS / "process", RATION_MEM=CONTEXT + 150 * MIB)
    program.await_word("end")
    assert place.slots() == {program.pid: CONTEXT + 100 * MIB}
    program.go().end()


def test_programs_that_it_starts(place):
    place.run("process", "spawn", PROGRAMS / "process", RATION_MEM=2 * CONTEXT + 120 * MIB)
    assert place.slots() == {}


# field fault 90
def test_signal_handlers_are_left_alone(place):
    assert place.run("process", "signals", RATION_MEM="256m").lines == \
        ["before: same", "after: same", "usr1 1 usr2 1 term 1"]


def allow_handlers(place):
    """The driver is no signal-safe library, and thread sanitizers know."""
    place.settings["TSAN_OPTIONS"] = os.environ.get("TSAN_OPTIONS", "") + ":report_signal_unsafe=0"


def test_first_use_in_a_signal_handler(place):
    allow_handlers(place)
    assert place.run("process", "in-handler", RATION_MEM="256m").lines == ["handled 0000"]


def lock_creation(place):
    """Holds the range that is locked while a region is attached to, as a creating process does."""
    f = open(place.region, "r+b")
    # struct flock: write, from the start, [0, 2008952)
    fcntl.fcntl(f, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 2008952, 0))
    return f


def test_a_signal_in_the_midst_of_the_first_use(place):
    """The handler is refused at once and does not wait for what it interrupted."""
    allow_handlers(place)
    place.settings["RATION_MEM"] = "256m"
    place.run("quota", "use")
    with lock_creation(place):
        program = place.start("process", "handler")
        program.await_word(f"handled 0{OPERATING_SYSTEM}")
    assert program.end().lines[-1] == "handled 0000"


# field fault 28: calls from exit handlers
def test_calls_at_exit(place):
    place.run("process", "exit", RATION_MEM="256m")
    assert place.slots() == {}
    free_slots_are_zero(place)


# field fault 28: a thread of an exit handler used what was gone, and each call was a line in the log
def test_calls_at_exit_after_a_reset(place):
    """The driver's answers, and not a line even where warnings are asked for."""
    ours = place.run("process", "gone", RATION_MEM="256m", RATION_LOG="warn")
    assert ours.lines == place.run("process", "gone", preload=()).lines
    assert place.slots() == {}


def test_a_process_that_is_killed(place):
    place.run("process", "kill-me", RATION_MEM="256m", status=-9)
    assert place.charged() == CONTEXT + 100 * MIB
    place.run("quota", "use", RATION_MEM="256m")
    assert place.slots() == {}
    free_slots_are_zero(place)


def test_monitors_see_the_end_of_one_that_is_killed(place):
    """Also where nobody of the tenant asks for anything: its memory and its share are not shown for ever."""
    place.settings["RATION_MEM"] = "512m"
    other = place.start("quota", "hold", 10).await_word("held")
    killed = place.start("quota", "hold", 100).await_word("held")
    at = HAMI_PROCS + HAMI_PROC_BYTES * list(place.slots()).index(killed.pid)
    # Nobody reaps it before that is written.
    os.kill(killed.pid, signal.SIGSTOP)
    with open(place.region, "r+b") as f:
        f.seek(at + 1160 + 16)
        f.write(struct.pack("Q", 77))
    killed.kill()
    end = time.monotonic() + 30
    while place.words(at, "i")[0] and time.monotonic() < end:
        time.sleep(0.05)
    assert place.slots() == {other.pid: CONTEXT + 10 * MIB}
    assert place.words(at + 1160, "96Q") == (0,) * 96
    assert place.charged() == CONTEXT + 10 * MIB
    other.go().end()


def test_without_standard_descriptors(place):
    place.run("process", "descriptors", RATION_MEM="256m")


def test_a_limit_of_file_sizes(place):
    """RLIMIT_FSIZE below the region's size: an error that says so, and no SIGXFSZ."""
    watcher = place.start("observe", 0, "watch", preload=()).await_word("watching")
    done = place.run("process", "file-size", RATION_MEM="256m", err="ulimit -f")
    assert done.lines == [f"init {OPERATING_SYSTEM}"]
    # With the region there, there is nothing to grow.
    place.run("quota", "use", RATION_MEM="256m")
    assert place.run("process", "file-size", RATION_MEM="256m").lines == ["init 0"]
    watcher.end()


def test_few_descriptors(place):
    """The whole of it in a process that may open 16 files."""
    place.run("/bin/sh", "-c", f"ulimit -n 16; exec {PROGRAMS / 'quota'} use",
              RATION_MEM="256m")


def test_another_user_s_region(open_place):
    """fs.protected_regular forbids O_CREAT on another's file in /tmp, even to root."""
    needs(is_root(), "only root can start programs as others")
    needs(subprocess.run(["setpriv", "--version"], capture_output=True, check=False).returncode == 0,
          "no setpriv")
    place = open_place
    place.settings["RATION_MEM"] = "512m"
    first = place.start("setpriv", "--reuid=1234", "--clear-groups", PROGRAMS / "quota", "hold", 10)
    first.await_word("held")
    second = place.start("setpriv", "--reuid=1235", "--clear-groups", PROGRAMS / "quota", "hold", 20)
    second.await_word("held")
    third = place.start("quota", "hold", 30).await_word("held")
    assert place.charged() == 3 * CONTEXT + 60 * MIB
    for program in (first, second, third):
        program.go().end()
