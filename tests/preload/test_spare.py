"""What a movable tenant's program frees is had again at once, and is nobody else's loss."""
import json
import os
import signal
import subprocess

import pytest

from conftest import BUILD, CONTEXT, MIB, is_root, needs
from test_movable import residency

MOVABLE = {"RATION_MOVABLE": "true"}


@pytest.fixture(name="place")
def make_movable(place):
    place.settings.update(MOVABLE)
    return place


@pytest.mark.plain
def test_what_is_freed_while_nothing_runs_is_free_at_once(place):
    """Once all work was seen done the device is not asked again: it would not answer in time."""
    late = ",".join(f"cuEventQuery:{n}=600" for n in range(4, 60))
    place.run("spare", "small", RATION_SIM_FAULT=late)


@pytest.mark.plain
def test_what_is_large_is_had_again_whole(place):
    place.run("spare", "large", RATION_MEM="1g")


def test_what_work_may_use_is_not_given_out(place):
    place.run("spare", "running", RATION_MEM="2g")


def used(place):
    """What the command says that the tenant uses."""
    env = place.environment(preload=()) | {"RATION_REGION": str(place.region), "RATION_DIR": str(place.region.parent)}
    shown = subprocess.run([BUILD / "ration", "ps", "--json"], capture_output=True, check=True, env=env).stdout
    tenant, = (t for t in json.loads(shown)["tenants"] if t["path"] == str(place.region))
    return tenant["devices"][0]["used_bytes"]


KINDS = ["alloc", "pitch", "managed", "vmm", "async"]


@pytest.fixture(name="busy")
def make_busy(place):
    """Another of the tenant has something at hand, more than is left without it."""
    def start(**more):
        return place.start("spare", "busy", 400 * MIB, **more).await_word("kept")
    return start


@pytest.mark.plain
@pytest.mark.parametrize("kind", KINDS)
def test_others_of_the_tenant_get_it_below_their_limit(place, busy, kind):
    place.settings["RATION_MEM"] = 1024 * MIB
    other = busy()
    place.run("spare", "has", kind, 640 * MIB)
    assert other.go().end().values["asked"] == 1


@pytest.mark.plain
@pytest.mark.parametrize("kind", KINDS)
def test_others_of_the_tenant_get_it_on_a_full_card(place, busy, kind):
    place.sim.update(mem="1g")
    other = busy()
    place.run("spare", "has", kind, 640 * MIB)
    assert other.go().end().values["asked"] == (kind != "managed")


@pytest.mark.plain
def test_one_that_is_stopped_is_not_waited_for_again_and_again(place, busy):
    """Memory of 36 objects each time: with a wait for each of them the second takes more than a minute."""
    place.settings["RATION_OVERSUBSCRIBE"] = "true"
    place.sim.update(mem="6g")
    other = busy()
    os.kill(other.pid, signal.SIGSTOP)
    assert "got" in place.run(BUILD / "examples" / "hog", "--piece", "9000m", RATION_MEM="12g").out
    other.kill()


@pytest.mark.plain
@pytest.mark.parametrize("movable", ["true", "false"])
@pytest.mark.parametrize("full", ["limit", "card"])
def test_what_one_that_is_stopped_keeps_is_not_free(place, busy, full, movable):
    """From when it was asked in vain until it goes on, to all who look."""
    if full == "limit":
        place.settings["RATION_MEM"] = 1024 * MIB
    else:
        place.sim.update(mem="1g")
    other = busy()
    os.kill(other.pid, signal.SIGSTOP)
    asker = place.start("spare", "left", 640 * MIB, RATION_MOVABLE=movable).await_word("left")
    assert used(place) > 900 * MIB
    shown = {int(pid): int(bytes) for pid, bytes in map(str.split, place.run("observe", 0).lines)}
    assert shown[other.pid] > 400 * MIB
    os.kill(other.pid, signal.SIGCONT)
    asker.go().end()
    assert other.go().end().values["asked"] == 1


@pytest.fixture(name="tenants")
def make_tenants(place, tmp_path):
    """Regions of two tenants as `ration run` places them."""
    places = [tmp_path / "dir" / f"{name}.tenant" for name in "ab"]
    for folder in places:
        folder.mkdir(parents=True)
    place.sim.update(mem="1g")
    return [folder / "0123.region" for folder in places]


@pytest.mark.plain
@pytest.mark.parametrize("movable", ["true", "false"])
@pytest.mark.parametrize("kind", KINDS)
def test_other_tenants_get_it_on_a_full_card(place, busy, tenants, kind, movable):
    other = busy(RATION_REGION=tenants[0])
    place.run("spare", "has", kind, 640 * MIB, RATION_REGION=tenants[1], RATION_MOVABLE=movable)
    assert other.go().end().values["asked"] == (kind != "managed")


@pytest.mark.plain
@pytest.mark.parametrize("movable", ["true", "false"])
def test_they_get_it_from_another_root_directory(place, busy, tenants, movable):
    needs(is_root(), "only root can change the root directory")
    root = place.folder / "root"
    root.mkdir()
    other = busy(RATION_REGION=tenants[0])
    place.run("spare", "elsewhere", "alloc", 640 * MIB, root, RATION_REGION=tenants[1], RATION_MOVABLE=movable)
    assert other.go().end().values["asked"] == 1


@pytest.mark.plain
def test_what_nobody_has_is_refused_all_the_same(place, busy, tenants):
    other = busy(RATION_REGION=tenants[0])
    for movable in ("true", "false"):
        place.run("spare", "has", "alloc", 960 * MIB, status=1, err=None, RATION_REGION=tenants[1],
                  RATION_MOVABLE=movable)
    other.go().end()


@pytest.mark.plain
@pytest.mark.parametrize("kind", KINDS)
def test_who_has_it_gets_it_as_something_else(place, kind):
    place.sim.update(mem="1g")
    place.run("spare", "own", kind, 544 * MIB)
    place.run("spare", "own", kind, 544 * MIB, RATION_MEM="1g")


@pytest.mark.plain
def test_who_is_killed_keeps_nothing(place, busy):
    place.settings["RATION_MEM"] = 1024 * MIB
    busy().kill()
    place.run("spare", "has", "alloc", 900 * MIB)


def test_who_is_suspended_keeps_none(place):
    program = place.start("spare", "held", RATION_MEM="1g").await_word("kept")
    place.suspend(True)
    assert residency(place)[0][0] == 0
    assert list(place.truth().values()) == [CONTEXT]
    place.suspend(False)
    program.go().end()


@pytest.mark.plain
def test_a_fork_child_has_none(place):
    place.run("spare", "forks", RATION_MEM="1g")


@pytest.mark.plain
def test_it_is_nobody_s_to_who_looks(place, busy):
    """The command and NVML say what the program uses; what is charged is more."""
    place.settings["RATION_MEM"] = 1024 * MIB
    other = busy()
    assert used(place) < 100 * MIB
    shown = place.run("observe", 0).out
    assert all(int(line.split()[1]) < 100 * MIB for line in shown.splitlines())
    other.go().end()
