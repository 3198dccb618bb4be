"""`ration run`: the program it starts, its end, its signals."""

import os
import select
import signal
import subprocess
import sys

import pytest


@pytest.mark.parametrize("status", [0, 1, 2, 77, 125, 255])
def test_exit_status(ration, status):
    assert ration("run", "sh", "-c", f"exit {status}").returncode == status


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT,
                                 signal.SIGINT, signal.SIGUSR1, signal.SIGPIPE])
def test_dies_of_the_same_signal(ration, sig):
    out = ration("run", "sh", "-c", f"kill -{sig.value} $$")
    assert out.returncode == -sig.value
    assert ration.regions() == []


def test_dies_of_the_same_signal_though_it_ignores_it(ration):
    code = ("import os, signal; signal.signal(signal.SIGTERM, signal.SIG_DFL);"
            "os.kill(os.getpid(), signal.SIGTERM)")
    out = ration("run", sys.executable, "-c", code,
                 preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN))
    assert out.returncode == -signal.SIGTERM


def test_no_second_core(ration, tmp_path):
    if open("/proc/sys/kernel/core_pattern").read().startswith("|"):
        pytest.skip("cores go to a program")
    ration("run", "sh", "-c", "ulimit -c 0; kill -SEGV $$", cwd=tmp_path)
    assert [p for p in tmp_path.iterdir() if "core" in p.name] == []


def test_not_found(ration):
    out = ration("run", "no-such-program-here")
    assert out.returncode == 127
    assert "'no-such-program-here'" in out.stderr
    assert ration.regions() == []


def test_not_found_where_a_directory_of_the_path_is_closed(ration, open_copy, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    closed.chmod(0)
    path = f"{closed}:{os.environ['PATH']}"

    def become_nobody():
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)

    ration.path = open_copy
    out = ration("run", "no-such-program-here", cwd="/",
                 env={"PATH": path, "RATION_DIR": None, "XDG_RUNTIME_DIR": None},
                 preexec_fn=become_nobody if os.geteuid() == 0 else None)
    assert out.returncode == 127
    assert "No such file" in out.stderr


@pytest.mark.parametrize("by_path", [False, True])
def test_a_command_whose_interpreter_is_missing(ration, tmp_path, by_path):
    """As of a virtual environment that was moved: the file itself is there."""
    script = tmp_path / "train.py"
    script.write_text("#!/nonexistent/bin/python3\n")
    script.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    out = ration("run", script.name if by_path else script, env=env)
    assert (out.returncode, out.stdout) == (126, "")
    assert "interpreter" in out.stderr and "train.py" in out.stderr and out.stderr.count("\n") == 1


def test_not_executable(ration, tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\n")
    plain.chmod(0o644)
    assert ration("run", plain).returncode == 126
    out = ration("run", tmp_path)
    assert out.returncode == 126
    assert str(tmp_path) in out.stderr


def test_script_without_a_first_line_runs_by_the_shell(ration, tmp_path):
    script = tmp_path / "script"
    script.write_text("exit 9\n")
    script.chmod(0o755)
    assert ration("run", script).returncode == 9


def test_no_descriptor_is_inherited(ration):
    list_them = "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"
    plain = subprocess.run([sys.executable, "-c", list_them], text=True, capture_output=True,
                           check=True).stdout
    assert ration("run", sys.executable, "-c", list_them).stdout == plain


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_standard_descriptors_may_be_closed(ration, tmp_path, closed):
    def close_them():
        for fd in closed:
            os.close(fd)

    seen = tmp_path / "seen"
    # The shell's own redirection would take a closed descriptor, so Python looks.
    look = ("import os\n"
            "have = [fd for fd in range(20) if os.path.exists(f'/proc/self/fd/{fd}')]\n"
            f"open({str(seen)!r}, 'w').write(repr(have))\n")
    process = subprocess.Popen([ration.path, "run", sys.executable, "-I", "-c", look],
                               env=ration.env, preexec_fn=close_them)
    assert process.wait(60) == 0
    assert not set(closed) & set(eval(seen.read_text())), "ours came in the place of a closed one"
    assert ration.regions() == []


# A handler of Python's own may wait for the next line of input; the descriptor is written at once.
TRAP = """
import os, select, signal, sys
told, tell = os.pipe()
os.set_blocking(tell, False)
signal.set_wakeup_fd(tell)
for sig in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(sig, lambda *_: None)
os.write(1, b"%d\\n" % os.getpid())
while True:
    ready = select.select([0, told], [], [])[0]
    for sig in os.read(told, 100) if told in ready else b"":
        os.write(1, b"got %d\\n" % sig)
    if 0 in ready and os.read(0, 100) in (b"", b"end\\n"):
        sys.exit(5)
"""


@pytest.fixture
def trap(ration):
    process = ration.start("run", "--name", "trap", sys.executable, "-c", TRAP,
                           stdin=subprocess.PIPE, start_new_session=True)
    process.child = int(process.stdout.readline())
    yield process
    process.kill()
    process.wait()
    if os.path.exists(f"/proc/{process.child}"):
        os.kill(process.child, signal.SIGKILL)


CATCHABLE = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})


@pytest.mark.parametrize("sig", CATCHABLE)
def test_signals_are_passed_on(trap, sig):
    trap.send_signal(sig)
    assert select.select([trap.stdout], [], [], 10)[0], "nothing came"
    assert trap.stdout.readline() == f"got {int(sig)}\n"
    trap.stdin.write("end\n")
    trap.stdin.flush()
    # Its own end is that of the program, whatever came.
    assert trap.wait(30) == 5


def is_ignored(sig):
    """Of libc's own signals: some programs leave them ignored to what they start."""
    with open("/proc/self/status", encoding="ascii") as status:
        mask, = (int(line.split()[1], 16) for line in status if line.startswith("SigIgn:"))
    return sig in (32, 33) and bool(mask >> (sig - 1) & 1)


@pytest.mark.parametrize("sig", [signal.SIGPIPE, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF,
                                 signal.SIGSEGV, signal.SIGXCPU, signal.SIGRTMIN, signal.SIGRTMAX, 32])
def test_a_signal_ends_the_program_first(ration, eventually, sig):
    if is_ignored(sig):
        pytest.skip(f"signal {sig} was ignored when this began, and libc lets nobody change it")
    process = ration.start("run", "sh", "-c", "echo $$; exec sleep 1000")
    child = int(process.stdout.readline())
    process.send_signal(sig)
    assert process.wait(30) == (-sig if sig != 32 else 128 + sig)
    assert not os.path.exists(f"/proc/{child}")
    assert ration.regions() == []


def test_a_timer_from_before_is_the_programs(ration):
    # alarm(2) goes on over exec(3); a process started by fork(2) does not have it.
    out = ration("run", "sleep", "1000", preexec_fn=lambda: signal.setitimer(signal.ITIMER_REAL, 0.5))
    assert out.returncode == -signal.SIGALRM


def test_what_the_program_sends_us_does_not_come_back(ration):
    assert ration("run", "sh", "-c", "kill -TERM $PPID; exit 4").returncode == 4


def state(pid):
    return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]


def test_stops_and_goes_on_in_a_service(trap, eventually):
    # Without job control nobody continues a stopped wrapper, so it does not stop.
    os.kill(trap.child, signal.SIGSTOP)
    eventually(lambda: state(trap.child) == "T")
    trap.send_signal(signal.SIGCONT)
    eventually(lambda: state(trap.child) != "T")
    trap.stdin.write("end\n")
    trap.stdin.flush()
    assert trap.wait(30) == 5


TERMINAL = """
import os, pty, signal, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
def say(text):
    os.write(terminal, text)
def wait_for(text):
    seen = b""
    while text not in seen:
        seen += os.read(terminal, 1000)
wait_for(b"ready")
say(b"\\x03")
wait_for(b"interrupted 1")
say(b"\\x04")
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""

INTERRUPTED = """
import select, signal, sys
count = 0
def told(sig, frame):
    global count
    count += 1
    print("interrupted", count, flush=True)
signal.signal(signal.SIGINT, told)
print("ready", flush=True)
while not select.select([0], [], [], 0.05)[0]:
    pass
sys.exit(count)
"""


def test_interrupt_from_the_terminal_comes_once(ration):
    out = subprocess.run([sys.executable, "-c", TERMINAL, ration.path, "run", sys.executable, "-c",
                          INTERRUPTED], env=ration.env, timeout=60, check=False)
    assert out.returncode == 1


HANGUP = """
import os, pty, signal, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
seen = b""
while b"ready\\r\\n" not in seen:
    seen += os.read(terminal, 1000)
os.close(terminal)
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_the_terminal_hangs_up(ration):
    """The kernel tells the session's leader alone, which `ration run` may be."""
    program = ("import os, signal, time; signal.signal(signal.SIGHUP, lambda *_: os._exit(6));"
               "print('ready', flush=True)\nwhile True: time.sleep(0.05)")
    out = subprocess.run([sys.executable, "-c", HANGUP, ration.path, "run", sys.executable, "-c",
                          program], env=ration.env, timeout=60, check=False)
    assert out.returncode == 6


JOB = """
import os, pty, signal, sys
# A shell with job control in small: a session leader on a terminal, a job in a group of its own.
leader, terminal = pty.fork()
if leader == 0:
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpgrp())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execvp(sys.argv[1], sys.argv[1:])
    _, status = os.waitpid(job, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        os._exit(101)
    os.write(1, b"stopped")
    os.killpg(job, signal.SIGCONT)
    _, status = os.waitpid(job, 0)
    os._exit(os.waitstatus_to_exitcode(status))
seen = b""
while b"ready" not in seen:
    seen += os.read(terminal, 1000)
os.write(terminal, b"\\x1a")
while b"stopped" not in seen:
    seen += os.read(terminal, 1000)
os.write(terminal, b"\\x04")
try:
    while os.read(terminal, 1000):
        pass
except OSError:
    pass
_, status = os.waitpid(leader, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_job_stops_at_the_terminal_and_goes_on(ration):
    program = "import sys; print('ready', flush=True); sys.stdin.read(); sys.exit(7)"
    out = subprocess.run([sys.executable, "-c", JOB, ration.path, "run", sys.executable, "-c",
                          program], env=ration.env, timeout=60, check=False)
    assert out.returncode == 7


def test_ignored_child_signal(ration):
    out = ration("run", "sh", "-c", "exit 3",
                 preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert out.returncode == 3


def test_dispositions_and_mask_are_the_programs_own(ration):
    look = "grep -E '^Sig(Blk|Ign)' /proc/self/status"
    plain = subprocess.run(["sh", "-c", look], text=True, capture_output=True, check=True).stdout
    assert ration("run", "sh", "-c", look).stdout == plain
