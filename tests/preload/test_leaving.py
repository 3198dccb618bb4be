"""What a process that was killed had of the card is not given away before the card has it back."""
import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import CONTEXT, MIB, PROGRAMS, is_root, needs

LIMIT = 1024 * MIB
TAKES = 700
PTRACE_SEIZE, WALL = 0x4206, 0x40000000
OVERLAY = ("mkdir -p {at}.all && mount -t tmpfs none {at}.all && cd {at}.all && mkdir lower upper work && "
           "mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work none {at} && ")


class Leaver:
    """Killed, and its exit does not come to its end: one of its threads is traced and not waited for. All
    that it had open is closed; the software GPU keeps its memory until the exit is over, as a card does."""

    def __init__(self, running):
        self.running, pid = running, running.pid
        tasks = Path(f"/proc/{pid}/task")
        self.thread = next(int(task.name) for task in tasks.iterdir() if int(task.name) != pid)
        ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        if ptrace(PTRACE_SEIZE, self.thread, None, None) != 0:
            pytest.skip("nothing can be traced here: " + os.strerror(ctypes.get_errno()))
        os.kill(pid, signal.SIGKILL)
        while sorted(os.listdir(tasks)) != sorted([str(pid), str(self.thread)]) or any(
                (tasks / task / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
                for task in os.listdir(tasks)):
            time.sleep(0.001)

    def let_go(self):
        if self.thread:
            os.waitpid(self.thread, WALL)
            self.thread = 0
            self.running.popen.communicate()


@pytest.fixture(name="tenant", params=["mapping", "overlay"])
def make_tenant(request, place):
    """A place whose slots' bytes mappings hold, or descriptors."""
    place.settings.update(RATION_MEM=LIMIT, ASAN_OPTIONS="detect_leaks=0:verify_asan_link_order=0")
    place.enter, keeper = [], None
    if request.param == "overlay":
        needs(is_root(), "only root can mount")
        at = place.folder / "at"
        at.mkdir()
        keeper = subprocess.Popen(["unshare", "-m", "sh", "-c", OVERLAY.format(at=at) + "echo up && exec cat"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True)
        if keeper.stdout.readline() != "up\n":
            pytest.skip("no such mount here: " + keeper.communicate()[1])
        place.enter = ["nsenter", f"--mount=/proc/{keeper.pid}/ns/mnt"]
        place.settings["RATION_REGION"] = at / "region"
        place.region = Path(f"/proc/{keeper.pid}/root{at}/region")
    place.leavers = []
    yield place
    for leaver in place.leavers:
        leaver.let_go()
    if keeper:
        keeper.kill()
        keeper.communicate()


def start(tenant, *steps):
    return tenant.start(*tenant.enter, PROGRAMS / "keeps", *steps)


def leave(tenant, running):
    tenant.leavers.append(Leaver(running))
    return tenant.leavers[-1]


TAKE = ["context", "take", TAKES]


@pytest.mark.parametrize("closes", [[], ["close"], ["leave"], ["leave", "close"]], ids=" ".join)
def test_what_one_that_leaves_had(tenant, closes):
    """Who asks for it waits, and gets it when the card has it back; nor is it refused before."""
    others = start(tenant, "context", "pause", "there").await_word("there")
    owner = start(tenant, "context", "take", TAKES - CONTEXT // MIB, *closes, "pause", "held").await_word("held")
    other = start(tenant, "context", "pause", "ready", "take", TAKES, "pause", "got").await_word("ready")
    leaver = leave(tenant, owner)
    others.go().end()
    other.go()
    time.sleep(0.3)
    assert tenant.most() <= LIMIT
    assert tenant.charged() <= LIMIT
    leaver.let_go()
    other.await_word("got").go().end()
    assert tenant.most() <= LIMIT


def test_a_new_one(tenant):
    """It finds nobody else there, and the region is not cleared under the one that leaves."""
    leaver = leave(tenant, start(tenant, *TAKE, "pause", "held").await_word("held"))
    other = start(tenant, *TAKE, "pause", "got")
    time.sleep(0.3)
    assert tenant.most() <= LIMIT
    leaver.let_go()
    other.await_word("got").go().end()
    assert tenant.most() <= LIMIT


def test_what_never_fits(tenant):
    """Nobody waits for one that leaves if that would not help."""
    leaver = leave(tenant, start(tenant, "context", "take", 400, "pause", "held").await_word("held"))
    start(tenant, "context", "refused", 2000, "take", 100).end()
    leaver.let_go()
    assert tenant.most() <= LIMIT


def test_nobody_waits_for_it(tenant):
    """A process that has ended and that nobody has waited for holds nothing."""
    owner = start(tenant, *TAKE, "leave", "pause", "held").await_word("held")
    other = start(tenant, "context", "pause", "ready", "take", TAKES, "pause", "got").await_word("ready")
    os.kill(owner.pid, signal.SIGKILL)
    os.waitid(os.P_PID, owner.pid, os.WEXITED | os.WNOWAIT)
    other.go().await_word("got").go().end()
    assert tenant.most() <= LIMIT


def test_another_program(tenant):
    """What became another program holds nothing, and is not waited for."""
    owner = start(tenant, *TAKE, "exec", "pause", "held").await_word("held")
    other = start(tenant, *TAKE, "pause", "got").await_word("got")
    other.go().end()
    owner.go().end()
    assert tenant.most() <= LIMIT


def test_one_that_is_stopped(tenant):
    """It lives."""
    owner = start(tenant, *TAKE, "pause", "held").await_word("held")
    os.kill(owner.pid, signal.SIGSTOP)
    start(tenant, "context", "refused", TAKES).end()
    os.kill(owner.pid, signal.SIGCONT)
    owner.go().end()


@pytest.mark.parametrize("closes", [[], ["close"]], ids=["", "close"])
def test_again_and_again(tenant, closes):
    """Each is killed and the next at its heels: the card never has more than the limit."""
    running = start(tenant, *TAKE, *closes, "pause", "held").await_word("held")
    for _ in range(8):
        following = start(tenant, "context", *closes, "pause", "ready", "insist", TAKES, "pause",
                          "held").await_word("ready")
        following.go()
        os.kill(running.pid, signal.SIGKILL)
        following.await_word("held")
        running.popen.communicate()
        running = following
    running.go().end()
    assert tenant.most() <= LIMIT
