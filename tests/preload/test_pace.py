"""Programs under a limit of GPU time: all of them get there."""
import subprocess
from pathlib import Path

import pytest

from conftest import BUILD

ROOT = Path(__file__).parents[2]


# The worker frees a thread's part once the kernel no longer knows it: an order that no sanitizer sees.
THREADS = pytest.param("threads", marks=pytest.mark.plain)
FORMS = pytest.param("forms", marks=pytest.mark.plain)
CAPTURE = pytest.param("capture", marks=pytest.mark.plain)


@pytest.mark.parametrize("case", [FORMS, CAPTURE, "ends", THREADS])
def test_programs_go_on(limited, case):
    limited.run("share", case)
    assert limited.slots() == {}


@pytest.mark.parametrize("case", [FORMS, CAPTURE, "ends", THREADS])
@pytest.mark.plain
@pytest.mark.parametrize("version", ["11.4", pytest.param("12.4", marks=pytest.mark.plain)])
def test_programs_go_on_with_older_drivers(limited, case, version):
    """Before 12.5 there is no event of a whole context, before 12.0 no identity of a stream."""
    limited.sim["driver"] = version
    limited.run("share", case, timeout=300)


@pytest.mark.plain
@pytest.mark.parametrize("version", [None, "12.4"])
def test_processes_at_once(limited, version):
    """Held and in each other's way, they mark where their launches begin: all of them get there."""
    if version:
        limited.sim["driver"] = version
    programs = [limited.start("share", "busy", "50000") for _ in range(3)]
    for program in programs:
        program.await_word("launched 1")
    for program in programs:
        program.await_word("done")
    for program in programs:
        program.go().end()
    assert limited.slots() == {}


@pytest.mark.plain
@pytest.mark.parametrize("limit_pct", ["20", "10"])
def test_launches_on_two_devices_at_once(limited, limit_pct):
    limited.sim["count"] = 2
    limited.settings["RATION_SM"] = limit_pct
    limited.run("share", "both", timeout=300)


@pytest.mark.plain
@pytest.mark.parametrize("version", [None, "12.4"])
def test_what_a_stream_waits_for_is_not_owed(limited, version):
    """Counted, each second would be paid for with a hundred."""
    if version:
        limited.sim["driver"] = version
    limited.sim["count"] = 2
    limited.settings["RATION_SM"] = "1"
    program = limited.start("share", "waits")
    for what in ("function", "callback", "value", "event"):
        program.await_word(f"{what} 1", timeout=30)
    program.end()


@pytest.mark.plain
@pytest.mark.parametrize("command", [
    ["share", "--limits", "50", "--seconds", "0.2", "--points", "100", "--only", "two processes, 10 ms"],
    ["share", "--limits", "50", "--seconds", "0.2", "--points", "100", "--only", "1 ms beside"],
    ["turn", "--count", "5"]])
def test_what_asks_a_card_works(place, command):
    """On the software GPU, where its figures mean nothing."""
    done = subprocess.run([ROOT / "tests" / "gpu" / command[0], "--build", BUILD, *command[1:]],
                          capture_output=True, text=True, timeout=100, check=False,
                          env=place.environment(preload=(), RATION_REGION=None))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip().endswith("1 of 1 within 100 points" if command[0] == "share" else "95%")
