"""NVML's lists of processes, and what it says of single ones: the tenant's and nobody else's."""
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import (BUILD, CONTEXT, HAMI_PROC_BYTES, HAMI_PROCS, MIB, PROGRAMS, is_root,
                      needs)

COMPUTE = ["compute1", "compute2", "compute3", "compute4"]
GRAPHICS = ["graphics1", "graphics2", "graphics3", "graphics4"]
MPS = ["mps1", "mps2", "mps3", "mps4"]
ANY = 0xffffffff
UUIDS = [f"GPU-0000000{i}-1111-2222-3333-444444444444" for i in range(4)]


def busy_nvml(place, **settings):
    """NVML with graphics and MPS processes, accounts and so on: lib_busy.c."""
    place.settings["LD_LIBRARY_PATH"] = f"{PROGRAMS / 'busy'}:{BUILD / 'sim'}"
    place.settings.update(settings)


def hold(place, mib, **settings):
    return place.start("quota", "hold", mib, **settings).await_word("held")


def read_lists(out):
    """{form: {pid: bytes}} of what `nvml_views lists` said."""
    found = {}
    for form, pid, used in re.findall(r"^((?:compute|graphics|mps)\d) (\d+) (\d+)", out, re.M):
        assert int(pid) not in found.setdefault(form, {})
        found[form][int(pid)] = int(used)
    return found


def lists(place, *argv, **kwargs):
    return read_lists(place.run("nvml_views", "lists", *(argv or [0]), **kwargs).out)


@pytest.fixture(name="tenants")
def make_tenants(place):
    """Two processes of the tenant, one of another tenant's and one of nobody's."""
    place.settings["RATION_MEM"] = "1g"
    ours = {program.pid: CONTEXT + size * MIB
            for size in (100, 50) for program in [hold(place, size)]}
    other = hold(place, 20, RATION_REGION=place.folder / "other")
    foreign = hold(place, 30, preload=())
    return place, ours, [other.pid, foreign.pid]


def test_compute_lists(tenants):
    place, ours, others = tenants
    assert lists(place) == {form: ours for form in COMPUTE}
    assert place.slots() == ours
    assert set(lists(place, preload=())["compute3"]) == {*ours, *others}


@pytest.fixture(name="foreign_pids")
def make_foreign_pids(place):
    """NVML lists processes under the host's pids, as older drivers do in a container."""
    place.sim["pids"] = "host"
    place.settings["RATION_MEM"] = "1g"
    return place


HOST = 1000000  # the host's pids in docs/sim.md


def test_processes_under_the_host_s_pids(foreign_pids):
    """Each finds its own row by its size: contexts are counted, and views have the pids of here."""
    ours = {hold(foreign_pids, size).pid: CONTEXT + size * MIB for size in (100, 50)}
    hold(foreign_pids, 20, RATION_REGION=foreign_pids.folder / "other")
    assert len(foreign_pids.truth()) == 3
    assert foreign_pids.charged() == sum(ours.values())
    assert foreign_pids.slots() == ours and lists(foreign_pids) == {form: ours for form in COMPUTE}
    host_pids = {foreign_pids.words(HAMI_PROCS + HAMI_PROC_BYTES * i, "ii") for i in range(2)}
    assert host_pids == {(pid, pid + HOST) for pid in ours}


# field fault 3: the row was looked for on NVML's first card, which was not the process's first
@pytest.mark.parametrize("visible,card", [("1", 1), ("2,0", 2), ("1,0,2", 1)])
def test_processes_under_the_host_s_pids_on_another_card(foreign_pids, visible, card):
    """Each is found on the card it uses, and what is on the others is nobody's of the tenant."""
    foreign_pids.sim["count"] = 3
    strangers = [hold(foreign_pids, 20, preload=(), CUDA_VISIBLE_DEVICES=str(i)) for i in range(3)]
    program = hold(foreign_pids, 100, CUDA_VISIBLE_DEVICES=visible)
    for other in range(3):
        mine = {program.pid: CONTEXT + 100 * MIB} if other == card else {}
        assert foreign_pids.charged(other) == sum(mine.values())
        assert lists(foreign_pids, other) == ({form: mine for form in COMPUTE} if mine else {})
        assert foreign_pids.truth(other)[strangers[other].pid + HOST] == CONTEXT + 20 * MIB


# field fault 3: 4 GiB under 5.8 on a second card were refused for what the first had
def test_the_limit_of_another_card_under_the_host_s_pids(foreign_pids):
    foreign_pids.sim["count"] = 2
    hold(foreign_pids, 6000, preload=(), CUDA_VISIBLE_DEVICES="0")
    program = foreign_pids.start("quota", "exact", "vmm", 256 * MIB, CUDA_VISIBLE_DEVICES="1",
                                 RATION_MEM=f"0:1g,1:{CONTEXT + 23 * 256 * MIB}").await_word("full")
    assert foreign_pids.charged(1) == CONTEXT + 23 * 256 * MIB and foreign_pids.charged(0) == 0
    assert program.go().await_word("empty").go().end().values["pieces"] == 23


@pytest.mark.parametrize("pids, beyond", [("same", 0), ("host", HOST)])
def test_the_search_by_itself(place, pids, beyond):
    place.sim["pids"] = pids
    values = place.run("own_row", preload=()).values
    assert values["pid"] == values["own"] + beyond


def test_many_find_their_rows_at_once(foreign_pids):
    """What others allocate meanwhile, and that they search too, leads nobody astray."""
    started = [foreign_pids.start("quota", "hold", 10 + 2 * i) for i in range(8)]
    ours = {program.await_word("held").pid: CONTEXT + (10 + 2 * i) * MIB
            for i, program in enumerate(started)}
    assert foreign_pids.slots() == ours and foreign_pids.charged() == sum(ours.values())


def test_a_limit_that_leaves_no_room_to_search(foreign_pids):
    """Contexts are not counted until there is room: no row is taken for ours before."""
    foreign_pids.settings["RATION_MEM"] = "1m"
    program = foreign_pids.start("nvml_views", "member", 0).await_word("said")
    assert foreign_pids.charged() == 0 and set(foreign_pids.truth().values()) == {CONTEXT}
    foreign_pids.set_limit(1 << 30)
    end = time.monotonic() + 60
    while foreign_pids.charged() != CONTEXT and time.monotonic() < end:
        time.sleep(0.02)
    assert foreign_pids.charged() == CONTEXT
    program.end()


def test_instances_are_nvml_s(tenants):
    """The card as a whole: no instance. In a slice, that of the slice."""
    place, ours, _ = tenants
    rows = place.run("nvml_views", "lists", 0).lines
    assert sum(line.endswith(f" {ANY} {ANY}") for line in rows) == 3 * len(ours)
    busy_nvml(place)
    rows = place.run("nvml_views", "lists", 0).lines
    assert sum(line.endswith(" 3 1") for line in rows) == 2 * 3 * len(ours)


def test_who_looks_is_listed_when_it_holds_memory(place):
    place.settings["RATION_MEM"] = "512m"
    first = hold(place, 100)
    program = place.start("nvml_views", "member", 10).await_word("said")
    assert program.said[-2] == f"used {2 * CONTEXT + 110 * MIB} of {512 * MIB}"
    assert read_lists("\n".join(program.said))["compute3"] == {
        first.pid: CONTEXT + 100 * MIB, program.pid: CONTEXT + 10 * MIB}
    program.end()


def look(program):
    """What a `watch` says now: the compute list and the bytes in use."""
    program.said.clear()
    program.go().await_word("said")
    used = int(program.said[-2].split()[1])
    return read_lists("\n".join(program.said)).get("compute3", {}), used


@pytest.mark.parametrize("looker", [("watch",), ("member", 0)])
def test_a_process_is_listed_while_it_lives(place, looker):
    """Also in the very first look after it was killed; bytes and sum agree, no descriptor is lost."""
    place.settings["RATION_MEM"] = "1g"
    program = place.start("nvml_views", *looker).await_word("said")
    own = {program.pid: CONTEXT} if looker[0] == "member" else {}
    assert look(program) == (own, sum(own.values()))
    for killed in (False, True):
        other = hold(place, 40)
        listed, used = look(program)
        assert listed == {**own, other.pid: CONTEXT + 40 * MIB} and used == sum(listed.values())
        if killed:
            other.kill()
        else:
            other.go().end()
        # The sum takes the dead off once in a millisecond at most.
        listed, used = look(program)
        assert listed == own
        time.sleep(0.002)
        assert look(program) == (own, sum(own.values()))
    program.end()


def test_only_those_that_hold_memory_of_the_device(place):
    place.sim["count"] = 2
    place.settings["RATION_MEM"] = "1g"
    first = hold(place, 100)
    second = hold(place, 50, CUDA_VISIBLE_DEVICES="1")
    assert lists(place, 0) == {form: {first.pid: CONTEXT + 100 * MIB} for form in COMPUTE}
    assert lists(place, 1) == {form: {second.pid: CONTEXT + 50 * MIB} for form in COMPUTE}


@pytest.mark.parametrize("settings", [{"RATION_MEM": None}, {"RATION_MEM": "1:100m"},
                                      {"CUDA_DISABLE_CONTROL": "true", "RATION_REGION": None}])
def test_without_a_limit_it_is_nvml_s(place, settings):
    place.sim["count"] = 2
    place.settings.update(RATION_MEM="1g")
    place.settings.update(settings)
    pids = {hold(place, 10).pid, hold(place, 20, preload=()).pid}
    assert set(lists(place)["compute3"]) == pids
    assert lists(place) == lists(place, preload=())
    sizes = place.run("nvml_views", "sizes").values
    assert sizes == place.run("nvml_views", "sizes", preload=()).values


def test_nothing_runs(place):
    assert lists(place, RATION_MEM="256m") == {}
    hold(place, 30, preload=())
    assert lists(place, RATION_MEM="256m") == {}


def test_a_fork_child_sees_the_same(tenants):
    place, ours, _ = tenants
    out = place.run("nvml_views", "forked").out
    rows = re.findall(r"^compute3 (\d+) (\d+)", out, re.M)
    assert sorted(rows) == sorted([(str(pid), str(used)) for pid, used in ours.items()] * 2)


# field faults 97, 125: what NVML refuses it refuses in its own words, also before nvmlInit
def test_odd_arguments(place):
    with_us = place.run("nvml_views", "odd", RATION_MEM="256m").lines
    assert with_us == place.run("nvml_views", "odd", preload=()).lines
    assert len(with_us) > 30


def test_graphics_and_mps_lists(tenants):
    """Of the tenant's processes those that NVML has there, with the bytes they are charged."""
    place, ours, others = tenants
    first = next(iter(ours))
    busy_nvml(place, BUSY_GRAPHICS=f"{others[0]},{first},{others[1]}")
    found = lists(place)
    assert found == {**{form: ours for form in COMPUTE + MPS},
                     **{form: {first: ours[first]} for form in GRAPHICS}}
    plain = lists(place, preload=())
    assert set(plain["graphics2"]) == {first, *others} and set(plain["mps4"]) == {*ours, *others}


# field fault 125: the struct's length is another in some drivers
@pytest.mark.parametrize("row_bytes", [16, 24, 32])
def test_rows_are_as_long_as_the_driver_s(tenants, row_bytes):
    place, ours, others = tenants
    busy_nvml(place, BUSY_ROW=str(row_bytes), BUSY_GRAPHICS=",".join(map(str, [*others, *ours])))
    found = lists(place, 0, row_bytes)
    for form in ("compute1", "compute2", "compute3", "compute4", "graphics3", "mps3"):
        assert found[form] == ours, form


@pytest.mark.parametrize("row_bytes", [16, 32])
def test_the_own_row_among_rows_of_another_length(place, row_bytes):
    """What this process holds is found behind others' rows, and nothing is written past our room."""
    foreign = [hold(place, 2, preload=()) for _ in range(3)]
    busy_nvml(place, BUSY_ROW=str(row_bytes))
    place.settings["RATION_MEM"] = "512m"
    hold(place, 100)
    assert place.charged() == CONTEXT + 100 * MIB and len(foreign) == 3


def test_the_driver_s_own_figure_is_not_ours(place):
    """
    Its NVML gets from one exported list to another by a jump: what we ask for ourselves must not be
    answered by our own list, or a context would cost nothing.
    """
    busy_nvml(place)
    place.settings["RATION_MEM"] = "512m"
    hold(place, 100)
    assert place.charged() == CONTEXT + 100 * MIB


def lists_for_a_context(place):
    """How many lists a program asks for, by the library, from cuInit to its first context."""
    log = place.folder / "questions"
    log.write_bytes(b"")
    place.run("context", "untouched", BUSY_LOG=log,
              LD_LIBRARY_PATH=f"{PROGRAMS / 'busy'}:{BUILD / 'sim'}")
    return len(log.read_bytes())


def test_many_processes(place):
    """More rows than one question asks for, which the first question finds out for all."""
    # Whose pids these are, what is held before the context, and what after it.
    assert lists_for_a_context(place) == 3
    place.sim["context"] = "2m"
    place.settings["RATION_MEM"] = "1g"
    programs = [place.start("quota", "hold", 2) for _ in range(36)]
    pids = {program.await_word("held").pid for program in programs}
    foreign = hold(place, 30, preload=())
    found = lists(place)
    assert found == {form: dict.fromkeys(pids, 4 * MIB) for form in COMPUTE}
    assert foreign.pid in lists(place, preload=())["compute3"]
    assert lists_for_a_context(place) == 4


def write_words(place, at, data):
    with open(place.region, "r+b") as f:
        f.seek(at)
        f.write(data)


def test_pids_of_the_host(tenants):
    """A driver that names processes as the host does: shown under the pids of the container."""
    place, ours, others = tenants
    first = next(iter(ours))
    for i in range(2):
        at = HAMI_PROCS + HAMI_PROC_BYTES * i
        (pid,) = place.words(at, "i")
        write_words(place, at + 4, (pid + 1000000).to_bytes(4, "little"))
    busy_nvml(place, BUSY_HOST="1000000", BUSY_GRAPHICS=f"{first},{others[0]}")
    found = lists(place)
    assert found["compute3"] == ours and found["graphics3"] == {first: ours[first]}
    out = place.run("nvml_views", "accounts", input=f"{first} {others[0]}").lines
    assert sorted(out) == sorted([f"pid {pid}" for pid in ours] + [
        f"stats {first} 0 {first + 1000000} {first + 1000000}", f"stats {others[0]} 6 1 1"])


def test_accounts(tenants):
    place, ours, others = tenants
    busy_nvml(place)
    first = next(iter(ours))
    asked = f"{first} {others[0]} 999999"
    out = place.run("nvml_views", "accounts", input=asked).lines
    assert sorted(out) == sorted([f"pid {pid}" for pid in ours] + [
        f"stats {first} 0 {first} {first}", f"stats {others[0]} 6 1 1", "stats 999999 6 1 1"])
    plain = place.run("nvml_views", "accounts", input=asked, preload=()).lines
    assert f"stats 999999 0 999999 999999" in plain and f"pid {others[1]}" in plain


def test_utilization(place):
    """Of two programs that keep the device busy only the tenant's is shown."""
    place.settings["RATION_MEM"] = "512m"

    def rows(**kwargs):
        return {(kind, int(pid)) for kind, pid in
                re.findall(r"^(sample|info) (\d+)", place.run("nvml_views", "utilization",
                                                              **kwargs).out, re.M)}

    foreign = place.start("nvml_views", "busy", preload=()).await_word("busy")
    assert rows(preload=()) == {("sample", foreign.pid), ("info", foreign.pid)}
    assert rows() == set()
    ours = place.start("nvml_views", "busy").await_word("busy")
    assert rows() == {("sample", ours.pid), ("info", ours.pid)}
    assert ("info", foreign.pid) in rows(preload=())


def test_a_program_that_ends_nvml_too_often(place):
    """What we began is ended with it; what this process holds is asked for all the same."""
    place.settings.update(RATION_MEM="1g", CUDA_MODULE_LOADING="EAGER")
    program = place.start("nvml_views", "shut").await_word("loaded")
    assert place.truth() == {program.pid: place.charged()} and place.charged() > CONTEXT
    program.go().end()


UNKNOWN = 999


def test_where_the_region_cannot_be_opened(place):
    """Nobody knows whose the processes are: none is shown, and of the sizes what is configured."""
    place.start("nvml_views", "busy", preload=()).await_word("busy")
    busy_nvml(place)
    calls = ["samples", "infos", "pids", "stats", "stats2", "attributes", "bar1"]
    plain = place.run("nvml_views", "unopened", preload=(), status=None, err=None).values
    assert all(plain.get(call, 0) == 0 for call in calls)
    place.settings["RATION_REGION"] = place.folder / "nowhere" / "region"
    assert place.run("nvml_views", "unopened", err=None).values == dict.fromkeys(calls, UNKNOWN)
    told = place.run("nvml_views", "unopened", err=None, RATION_MEM="512m").values
    assert told == {**dict.fromkeys(calls, UNKNOWN), "bar1": 0, "bar1.total": 512 * MIB,
                    "attributes": 0, "attributes.size": 512}


# issue: BAR1 and every other amount tell the same
def test_other_amounts(tenants):
    place, ours, _ = tenants
    used = sum(ours.values())
    sizes = place.run("nvml_views", "sizes").values
    assert sizes == {"bar1.total": 1024 * MIB, "bar1.used": 0, "bar1.free": 1024 * MIB}
    busy_nvml(place)
    assert place.run("nvml_views", "sizes").values == {
        "bar1.total": 1024 * MIB, "bar1.used": used, "bar1.free": 1024 * MIB - used,
        "attributes1": 1024, "attributes2": 1024, "multiprocessors": 7,
        "protected.total": 1024 * MIB, "protected.used": used,
        "protected.free": 1024 * MIB - used}


# field fault 105: "Unknown Error" for ever, and nobody could tell whose
@pytest.mark.parametrize("error", [15, 18, UNKNOWN])
@pytest.mark.parametrize("mem", ["256m", None])
def test_errors_are_nvml_s(place, error, mem):
    """Lost, reset or unknown: the code that NVML has, from every call, with a limit and without."""
    busy_nvml(place, BUSY_ERROR=str(error), RATION_MEM=mem)
    answers = place.run("nvml_views", "answers").values
    assert answers == dict.fromkeys(["memory1", "memory2", "protected"], error)
    ours = place.run("nvml_views", "errors").values
    assert ours == place.run("nvml_views", "errors", preload=()).values
    assert all(ours[form] == error for form in COMPUTE + GRAPHICS + MPS)


# field fault 122: a card that shares the host's memory
def test_a_device_without_figures_of_its_memory(place):
    """NVML keeps its answer; the limit holds and the driver's figures and the lists are the tenant's."""
    busy_nvml(place, BUSY_UNIFIED="1", RATION_MEM=str(CONTEXT + 64 * MIB))
    assert place.run("nvml_views", "answers").values == {"memory1": 3, "memory2": 3, "protected": 3}
    place.run("views", "free")
    program = hold(place, 30)
    assert lists(place)["compute3"] == {program.pid: CONTEXT + 30 * MIB}


def test_other_pid_namespaces(place):
    """Each sees those that have a name in its namespace, by that; the sums are everybody's."""
    needs(is_root() and subprocess.run(["unshare", "-pf", "--mount-proc", "true"], check=False,
                                       capture_output=True).returncode == 0, "no unshare")
    place.settings["RATION_MEM"] = "1g"
    outer = hold(place, 100)
    unshare = ["unshare", "-pf", "--mount-proc", "--kill-child", PROGRAMS / "nvml_views", "member"]
    inner = [place.start(*unshare, size).await_word("said") for size in (10, 20)]
    for program, size in zip(inner, (10, 20)):
        assert read_lists("\n".join(program.said))["compute3"] == {1: CONTEXT + size * MIB}
    assert inner[1].said[-2] == f"used {3 * CONTEXT + 130 * MIB} of {1024 * MIB}"
    children = [int(Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text())
                for program in inner]
    assert lists(place)["compute3"] == {outer.pid: CONTEXT + 100 * MIB,
                                        children[0]: CONTEXT + 10 * MIB,
                                        children[1]: CONTEXT + 20 * MIB}
    # Not by the end of unshare, which is told to take its child along and does not wait for that.
    os.kill(children[0], signal.SIGKILL)
    inner[0].popen.communicate()
    for _ in range(2):
        assert children[0] not in lists(place)["compute3"]
    inner[1].kill()


def cut_short(place, looker):
    """What a program sees of a region that was cut; None if that caught it in the midst of a look."""
    hold(place, 40)
    program = place.start("nvml_views", looker).await_word("said")
    # Its worker begins with a look at all of it.
    time.sleep(0.3)
    os.truncate(place.region, 4096)
    # A member takes a region that was whole for whole for a millisecond.
    time.sleep(0.002)
    if program.popen.poll() == -signal.SIGBUS:
        return None
    try:
        listed, used = look(program)
    except BrokenPipeError:
        assert program.popen.wait() == -signal.SIGBUS
        return None
    program.popen.kill()
    program.popen.communicate()
    return listed, used, program.said


@pytest.mark.parametrize("looker", ["watch", "member"])
def test_a_region_that_is_cut_short(place, looker):
    """
    Nothing is touched that is not there any more. Who looks at that moment, or was put off by the system in the
    midst of a look, is stopped: not again and again.
    """
    place.settings["RATION_MEM"] = "1g"
    for _ in range(4):
        seen = cut_short(place, looker)
        if seen:
            break
        os.unlink(place.region)
    listed, used, said = seen
    assert listed == {}
    if looker == "watch":
        # It does not know who is in the tenant any more, but the limit that is configured.
        assert "compute3 unknown" in said and "of 1073741824" in said[-2]
    else:
        assert used == 1024 * MIB


def test_a_region_whose_path_is_gone(place):
    """It cannot be opened again to ask who lives: pids and start times tell."""
    place.settings["RATION_MEM"] = "1g"
    others = [hold(place, 40), hold(place, 20)]
    program = place.start("nvml_views", "watch").await_word("said")
    place.region.rename(place.folder / "moved")
    assert look(program)[0] == {others[0].pid: CONTEXT + 40 * MIB, others[1].pid: CONTEXT + 20 * MIB}
    others[0].kill()
    assert look(program)[0] == {others[1].pid: CONTEXT + 20 * MIB}
    program.end()


LIMITS = [256, 512, 768, 1024]


# field faults 1, 3, 57: with permuted or some devices another's limit was shown, or none
@pytest.mark.parametrize("visible,order", [
    (None, [0, 1, 2, 3]), ("3,1", [3, 1]), ("2,0,1,3", [2, 0, 1, 3]), ("2", [2]),
    (f"{UUIDS[3]},{UUIDS[0]}", [3, 0]), ("GPU-00000001", [1]), ("1,-1,2", [1]),
])
def test_visible_devices(place, visible, order):
    """
    cuDeviceTotalMem, cuMemGetInfo, NVML's memory and its list: one story for each device. NVML's own
    count and indices follow no CUDA_VISIBLE_DEVICES.
    """
    place.sim.update(count=4, mem="4g", uuid="/".join(UUIDS))
    spec = ",".join(f"{i}:{limit}m" for i, limit in enumerate(LIMITS))
    out = place.run("nvml_views", "ordinals", 8, 4, RATION_MEM=spec, CUDA_VISIBLE_DEVICES=visible).lines
    assert out == [f"{UUIDS[i]} {LIMITS[i] * MIB} {CONTEXT + (8 + 2 * d) * MIB}"
                   for d, i in enumerate(order)]
