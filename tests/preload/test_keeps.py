"""A process keeps its place in the region whatever it closes, wherever its root is; so its limit holds."""
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import CONTEXT, MIB, PROGRAMS, is_root, needs

LIMIT = 1024 * MIB
TAKES = 300
FITS = (LIMIT - 2 * CONTEXT) // MIB - TAKES

MOUNTS = {
    "tmpfs": "mount -t tmpfs none {at}",
    "overlay": "mkdir -p {at}.all && mount -t tmpfs none {at}.all && cd {at}.all && "
               "mkdir lower upper work && mount -t overlay -o "
               "lowerdir=lower,upperdir=upper,workdir=work none {at}",
    # The image brought the region along: what is written is another file than what was read.
    "lower": "mkdir -p {at}.all && mount -t tmpfs none {at}.all && cd {at}.all && "
             "mkdir lower upper work && touch lower/region && mount -t overlay -o "
             "lowerdir=lower,upperdir=upper,workdir=work none {at}",
    "disk": "true",
}
OTHER_PIDS = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


def stat_of(folder):
    """A process's name, state and parent; None when it is gone."""
    try:
        name, fields = (folder / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
    except OSError:
        return None
    return name, fields.split()[0], int(fields.split()[1])


def below(above):
    """The names of all processes below another, by their pids."""
    found = {int(folder.name): stat_of(folder) for folder in Path("/proc").glob("[0-9]*")}
    def is_below(pid):
        while found.get(pid) and pid != above:
            pid = found[pid][2]
        return pid == above
    return {pid: stat[0] for pid, stat in found.items() if stat and is_below(pid)}


def outer_pid(comm, above):
    """The oldest process of that name below another."""
    return min(pid for pid, name in below(above).items() if name == comm)


def kill_all(program):
    """Until nothing of it lives, also what it left in its pid namespace: its pipes are closed before that."""
    pids = below(program.popen.pid)
    program.kill()
    while any((stat_of(Path(f"/proc/{pid}")) or ("", "Z"))[1] not in "ZX" for pid in pids):
        time.sleep(0.005)


class Mounted:
    """A place whose region stands on a file system of a kind, in a mount namespace of its own."""

    def __init__(self, place, kind):
        self.place, self.folder = place, place.folder / "at"
        self.folder.mkdir()
        self.keeper = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", f"{MOUNTS[kind].format(at=self.folder)} && echo up && exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.keeper.stdout.readline() != "up\n":
            pytest.skip("no such mount here: " + self.keeper.communicate()[1])
        place.settings.update(RATION_REGION=self.folder / "region", RATION_MEM=LIMIT,
                              ASAN_OPTIONS="detect_leaks=0:verify_asan_link_order=0")
        place.region = f"/proc/{self.keeper.pid}/root{self.folder}/region"

    def start(self, *steps, other_pids=False, other_ipc=False):
        enter = ["nsenter", f"--mount=/proc/{self.keeper.pid}/ns/mnt"]
        return self.place.start(*enter, *(OTHER_PIDS if other_pids else []),
                                *(["unshare", "--ipc"] if other_ipc else []), PROGRAMS / "keeps", *steps)

    def show(self, folder, root):
        """Has the folder, which the software GPU needs, in the other root too."""
        at = f"{root}{folder}"
        os.makedirs(at)
        subprocess.run(["nsenter", f"--mount=/proc/{self.keeper.pid}/ns/mnt", "mount", "--bind", folder, at],
                       check=True)

    def close(self):
        self.keeper.kill()
        self.keeper.communicate()


@pytest.fixture(name="mounted", params=["overlay", "lower", "tmpfs", "disk"])
def make_mounted(request, place):
    needs(is_root(), "only root can mount")
    mounted = Mounted(place, request.param)
    yield mounted
    mounted.close()


# What the one process does until it holds TAKES MiB, in the order of its life.
CLOSES = {
    "after": ["init", "context", "take", TAKES, "close"],
    "after a child": ["init", "context", "take", TAKES, "leave", "close"],
    "never": ["init", "context", "take", TAKES],
    "before": ["close", "init", "context", "take", TAKES],
    "between": ["init", "close", "context", "take", TAKES],
    "filled": ["init", "context", "take", TAKES, "fill"],
    "in a child": ["child", "init", "close", "context", "take", TAKES, "close"],
}


@pytest.mark.some
@pytest.mark.parametrize("other_pids", [True, False], ids=["other pids", "same pids"])
@pytest.mark.parametrize("when", CLOSES)
def test_who_closes_what_it_does_not_know(mounted, when, other_pids):
    """Nobody gives away what it holds, nor its place, and it goes on."""
    owner = mounted.start(*CLOSES[when], "pause", "held", "take", 2, "give", "pause", "alive",
                          other_pids=other_pids).await_word("held")
    # What it gives back before its end the owner gets at once, and what ends with it later.
    other = mounted.start("context", "most", "pause", "full", "reset").await_word("full")
    assert other.said[0] == f"got {FITS}"
    other.go().end()
    owner.go().await_word("alive")
    owner.go().end()


# Two seconds are waited for the end of one of other pids, so not everything is asked everywhere.
@pytest.mark.some
@pytest.mark.parametrize("mounted, other_pids", [("overlay", True), ("tmpfs", True), ("overlay", False),
                                                 ("lower", False), ("tmpfs", False), ("disk", False)],
                         indirect=["mounted"])
@pytest.mark.parametrize("when", CLOSES)
def test_who_closed_it_dies(mounted, when, other_pids):
    """What it held is there for the next."""
    owner = mounted.start(*CLOSES[when], "pause", "held", other_pids=other_pids).await_word("held")
    owner.kill()
    other = mounted.start("context", "most", "pause", "full").await_word("full")
    assert other.said[0] == f"got {FITS + TAKES + CONTEXT // MIB}"
    other.go().end()


@pytest.mark.some
@pytest.mark.parametrize("mounted", ["overlay", "tmpfs"], indirect=True)
@pytest.mark.parametrize("when", CLOSES)
def test_two_of_the_same_pid(mounted, when):
    """Each is the first of a pid namespace."""
    owner = mounted.start(*CLOSES[when], "pause", "held", "take", 2, "give", "pause", "alive",
                          other_pids=True).await_word("held")
    other = mounted.start("context", "most", "pause", "full", "reset", other_pids=True).await_word("full")
    assert other.said[0] == f"got {FITS}"
    other.go().end()
    owner.go().await_word("alive")
    owner.go().end()


@pytest.mark.some
@pytest.mark.parametrize("mounted", ["overlay", "tmpfs"], indirect=True)
@pytest.mark.parametrize("when", ["never", "after", "after a child"])
def test_a_container_that_comes_again(mounted, when):
    """No namespace of the one that was killed is known to the next, whose limit is a new one."""
    owner = mounted.start(*CLOSES[when], "pause", "held", other_pids=True, other_ipc=True).await_word("held")
    kill_all(owner)
    mounted.place.settings["RATION_MEM"] = LIMIT // 2
    other = mounted.start("context", "most", "pause", "full", other_pids=True, other_ipc=True).await_word("full")
    assert other.said[0] == f"got {(LIMIT // 2 - CONTEXT) // MIB}"
    other.go().end()


@pytest.mark.parametrize("mounted", ["overlay", "tmpfs"], indirect=True)
@pytest.mark.parametrize("waited", [True, False], ids=["waited for", "a zombie"])
def test_a_child_outlives_it(mounted, waited):
    """It has what its parent inherited to it, the lock on overlayfs too, in a pid namespace that lives on."""
    place = mounted.place
    script = 'exec 3<&0; "$0" "$@" <&3 & ' + ("wait; exec sleep 60" if waited else "exec sleep 60")
    inner = place.start("nsenter", f"--mount=/proc/{mounted.keeper.pid}/ns/mnt", *OTHER_PIDS, "sh", "-c", script,
                        PROGRAMS / "keeps", *CLOSES["never"], "leave", "pause", "held").await_word("held")
    other = mounted.start("context", "pause", "ready", "most", "pause", "full").await_word("ready")
    assert place.charged() == (TAKES * MIB + 2 * CONTEXT)
    os.kill(outer_pid("keeps", inner.pid), signal.SIGKILL)
    # Before what it left behind ends.
    end = time.monotonic() + 30
    while place.charged() > CONTEXT and time.monotonic() < end:
        time.sleep(0.05)
    assert place.charged() == CONTEXT
    other.go().await_word("full")
    assert other.said[-2] == f"got {(LIMIT - CONTEXT) // MIB}"
    other.go().end()


# With what it needs to give back what the dead hold, and without.
ROOTS = {
    "between": ["init", "root", "ROOT", "context", "take", TAKES],
    "between, closed before": ["close", "init", "root", "ROOT", "context", "take", TAKES],
    "after": ["init", "context", "take", TAKES, "root", "ROOT"],
    "after, closed": ["init", "context", "take", TAKES, "close", "root", "ROOT"],
    "after, closed late": ["init", "context", "take", TAKES, "root", "ROOT", "close"],
}
BARE_ROOTS = {
    "between, closed": ["init", "close", "root", "ROOT", "context", "take", TAKES],
    "between, filled": ["init", "fill", "root", "ROOT", "context", "take", TAKES],
    "between, closed after": ["init", "root", "ROOT", "close", "context", "take", TAKES],
    "between, closed late": ["init", "root", "ROOT", "context", "take", TAKES, "close"],
}


@pytest.fixture(name="root", params=["nothing there", "another there"])
def make_root(request, mounted):
    root = mounted.place.folder / "root"
    there = root / mounted.folder.relative_to("/")
    root.mkdir()
    if request.param == "another there":
        there.mkdir(parents=True)
        (there / "region").write_bytes(b"")
    return root


def steps_from(steps, root):
    return [root if step == "ROOT" else step for step in steps]


@pytest.mark.some
@pytest.mark.parametrize("root, other_pids", [("nothing there", True), ("nothing there", False),
                                              ("another there", False)], indirect=["root"])
@pytest.mark.parametrize("mounted", ["overlay", "tmpfs"], indirect=True)
@pytest.mark.parametrize("when", [*ROOTS, *BARE_ROOTS])
def test_who_changes_its_root(mounted, root, when, other_pids):
    """It has its place, and what the dead held, of which another has to tell it where it can open nothing."""
    dead = mounted.start("context", "take", FITS - CONTEXT // MIB, "pause", "held").await_word("held")
    owner = mounted.start(*steps_from({**ROOTS, **BARE_ROOTS}[when], root), "pause", "held", "most",
                          "pause", "full", other_pids=other_pids).await_word("held")
    other = mounted.start("context", "most", "pause", "full").await_word("full")
    assert other.said[0] == "got 0"
    other.go().end()
    dead.kill()
    if when in BARE_ROOTS:
        mounted.start("init").end()
    owner.go().await_word("full")
    assert owner.said[-2] == f"got {LIMIT // MIB - CONTEXT // MIB - TAKES}"
    owner.go().end()


@pytest.mark.some
@pytest.mark.parametrize("mounted", ["overlay", "tmpfs"], indirect=True)
@pytest.mark.parametrize("steps", [["view", "root", "ROOT"], ["view", "child", "root", "ROOT"],
                                   ["view", "root", "ROOT", "child"]], ids=" ".join)
def test_a_limit_is_had_once(mounted, root, steps):
    """Who knew its region and comes upon another from a new root directory has nothing."""
    region = mounted.folder / "region"
    mounted.show("/dev/shm", root)
    owner = mounted.start(*steps_from(steps, root), "init-refused")
    assert f"region {region}: the program has changed its root directory" in owner.end().err
    there = root / region.relative_to("/")
    assert not there.exists() or there.stat().st_size == 0


@pytest.mark.some
@pytest.mark.parametrize("mounted", ["overlay", "tmpfs"], indirect=True)
@pytest.mark.parametrize("steps", [["view", "cover", "AT"], ["view", "child", "cover", "AT"],
                                   ["view", "cover", "AT", "child"]], ids=" ".join)
def test_a_limit_is_had_once_in_a_mount_namespace(mounted, steps):
    """Likewise who comes upon another where only it sees that: as a child does that has a /tmp of its own."""
    covered = [mounted.folder if step == "AT" else step for step in steps]
    owner = mounted.start(*covered, "init-refused")
    assert f"region {mounted.folder}/region: the program has changed" in owner.end().err


@pytest.mark.some
@pytest.mark.parametrize("mounted", ["overlay", "tmpfs"], indirect=True)
@pytest.mark.parametrize("steps", [["view", "cover", "AT"], ["view", "child", "cover", "AT"],
                                   ["init", "cover", "AT"], ["init", "context", "cover", "AT"]], ids=" ".join)
def test_a_mount_namespace_that_shows_it(mounted, steps):
    """It is the tenant's all the same, and what the dead held is had again."""
    other = mounted.place.folder / "other"
    other.mkdir()
    dead = mounted.start("context", "take", TAKES, "pause", "held").await_word("held")
    covered = [other if step == "AT" else step for step in steps]
    owner = mounted.start(*covered, "context", "pause", "held", "most", "pause", "full").await_word("held")
    dead.kill()
    owner.go().await_word("full")
    assert owner.said[-2] == f"got {(LIMIT - CONTEXT) // MIB}"
    owner.go().end()
