"""Contexts, modules and handles: charged while they are there, given back with their end."""
import os
import re
import signal

import pytest

from conftest import BUILD, CONTEXT, MIB, OUT_OF_MEMORY


def test_what_ends_with_a_context(place):
    program = place.start("context", "ends", RATION_MEM="512m").await_word("end")
    assert place.truth() == {}
    program.go().end()


# field fault 23: charged though it failed, given back though references were left
def test_references_of_the_primary_context(place):
    ours = place.run("context", "references", RATION_MEM="512m")
    assert ours.lines == ["once more 201"]


# field fault 23: two threads charged twice, so one was refused
@pytest.mark.parametrize("driver", ["sim", "preload/slow"])
def test_the_primary_context_from_threads_at_once(place, driver):
    place.settings["LD_LIBRARY_PATH"] = f"{BUILD / driver}:{BUILD / 'sim'}"
    place.run("context", "together", RATION_MEM=CONTEXT + 8 * MIB)


@pytest.mark.parametrize("driver", ["sim", "preload/slow"])
def test_contexts_from_threads_at_once(place, driver):
    place.settings["LD_LIBRARY_PATH"] = f"{BUILD / driver}:{BUILD / 'sim'}"
    place.run("context", "crowd", RATION_MEM=10 * CONTEXT, err=None)


def test_what_a_context_costs_while_it_is_reset(place):
    place.run("context", "churn", RATION_MEM=64 * CONTEXT, err=None)


def test_a_context_beside_other_threads(place):
    """What was reserved for it goes back before anybody is refused for that."""
    place.settings["LD_LIBRARY_PATH"] = f"{BUILD}/preload/slow:{BUILD}/sim"
    place.sim["count"] = "2"
    place.run("context", "beside", RATION_MEM="512m")


def test_every_form_of_create(place):
    program = place.start("context", "forms", RATION_MEM=4 * CONTEXT + 8 * MIB).await_word("look")
    assert place.truth() == {program.pid: 4 * CONTEXT}
    done = program.go().end()
    # The one that has never seen a context makes it and takes it back; all are told what is wrong.
    assert "a context needs 64 MiB and the limit leaves" in done.err


def test_odd_arguments(place):
    ours = place.run("context", "odd", RATION_MEM="512m")
    assert ours.lines == place.run("context", "odd", preload=()).lines


# field fault 87: the library made a context before the program did
def test_no_context_is_made_for_the_program(place):
    assert place.run("context", "untouched", RATION_MEM="512m").lines == \
        place.run("context", "untouched", preload=()).lines == ["active 0", "active 1, flags 2"]


def test_modules_whose_size_is_known(place):
    """They are refused before they are loaded."""
    limit = CONTEXT + 100 * MIB
    place.run("context", "large-modules", RATION_MEM=limit)
    assert place.run("most", preload=()).values["most"] <= limit


def test_first_contexts_at_once(place):
    """Nobody knows yet what one costs: they wait for each other, and as many get one as fit."""
    limit = 3 * CONTEXT + 20 * MIB
    place.settings.update(LD_LIBRARY_PATH=f"{BUILD}/preload/slow:{BUILD}/sim", RATION_MEM=limit)
    programs = [place.start("context", "first") for _ in range(8)]
    made = sum("made" in program.await_word("over").said for program in programs)
    assert made == 3 and place.most() <= limit
    for program in programs:
        assert ("made" in program.said) == (program.go().end().err == "")


# field fault 19: memory that no allocation call shows
def test_modules(place):
    program = place.start("context", "modules", RATION_MEM=CONTEXT + 20 * MIB,
                          CUDA_MODULE_LOADING="EAGER").await_word("look")
    assert place.truth() == {program.pid: place.charged()}
    program.go().end()


@pytest.mark.parametrize("loading,ways", [("EAGER", 3), ("LAZY", 6)])
def test_libraries_past_the_limit(place, loading, ways):
    """Each question for another one was refused, and took its memory all the same."""
    program = place.start("context", "libraries", ways, RATION_MEM=CONTEXT + 45 * MIB,
                          CUDA_MODULE_LOADING=loading).await_word("look")
    assert place.truth() == {program.pid: place.charged()}
    program.go().end()


# field fault 14: the limit was below what a context takes, and the program got "invalid argument"
@pytest.mark.parametrize("limit", ["1m", "63m"])
def test_a_limit_below_a_context(place, limit):
    for _ in range(2):
        done = place.run("quota", "hold", 1, RATION_MEM=limit, status=1, err=None)
        line = done.err.splitlines()[0]
        assert re.search(r"a context needs 64 MiB and the limit leaves \d+ MiB of \d+ MiB", line)
        assert f"cuDevicePrimaryCtxRetain(&ctx, 0): {OUT_OF_MEMORY}" in done.err
    assert place.charged() == 0 and place.truth() == {}


@pytest.mark.parametrize("case", ["order", "alias", "several"])
def test_handles_and_mappings(place, case):
    program = place.start("vmm", case, RATION_MEM="512m")
    if case == "alias":
        program.await_word("look")
        assert place.truth() == {program.pid: place.charged()}
        program.go()
    program.await_word("end")
    assert place.truth() == {program.pid: CONTEXT}
    program.go().end()


@pytest.mark.parametrize("case", ["host", "survives", "imported"])
def test_more_of_handles(place, case):
    place.run("vmm", case, RATION_MEM="512m")


def test_handles_of_another_device(place):
    place.sim["count"] = 2
    place.run("vmm", "other-device", RATION_MEM="0:512m,1:32m")


# field fault 21: ranges that grow by mapping, on two devices in two processes, passed the limit
def test_segments_of_two_processes_on_two_devices(place):
    """Each keeps one segment at least; together they have all that fits and not one more."""
    place.sim["count"] = 2
    limits = [2 * CONTEXT + 175 * MIB, 2 * CONTEXT + 95 * MIB]
    place.settings["RATION_MEM"] = ",".join(f"{i}:{limit}" for i, limit in enumerate(limits))
    programs = [place.start("vmm", "segments").await_word("ready") for _ in range(2)]
    for program in programs:
        program.go()
    for program in programs:
        program.await_word("full")
    values = [dict(line.split() for line in program.said if line.startswith("device"))
              for program in programs]
    for dev, pieces in enumerate((8, 4)):
        assert sum(int(v[f"device{dev}"]) for v in values) == pieces
        assert place.charged(dev) == 2 * CONTEXT + pieces * 20 * MIB == sum(place.truth(dev).values())
    for program in programs:
        program.go().end()


@pytest.mark.parametrize("seers", [0, 1, 2])
def test_a_limit_below_what_a_context_was_seen_to_cost(place, seers):
    """One process has seen what one costs: the next is refused before the driver is asked."""
    place.settings["RATION_MEM"] = "512m"
    member = place.start("context", "member").await_word("member")
    for _ in range(seers):
        place.run("context", "one")
    place.set_limit(CONTEXT // 2)
    done = place.run("context", "one", status=1, err=None, RATION_SIM_FAULT="cuDevicePrimaryCtxRetain:1=999")
    member.go().end()
    assert f": {OUT_OF_MEMORY if seers else 999}, not 0" in done.err


def test_a_first_context_above_the_limit_is_made_once(place):
    """Nobody could know what it costs. Who made it does, and whoever comes after."""
    place.settings["RATION_MEM"] = CONTEXT // 2
    member = place.start("context", "member").await_word("member")
    once = place.run("context", "one", status=1, err=None)
    assert f": {OUT_OF_MEMORY}, not 0" in once.err and place.most() == CONTEXT
    again = place.run("context", "one", status=1, err=None, RATION_SIM_FAULT="cuDevicePrimaryCtxRetain:1=999")
    assert f": {OUT_OF_MEMORY}, not 0" in again.err
    assert place.charged() == 0 and place.truth() == {}
    member.go().end()


def test_what_was_bound_and_is_let_go(place):
    """What a multicast object holds when its handle is gone has no room for others at any time."""
    place.settings.update(LD_LIBRARY_PATH=f"{BUILD}/preload/binding:{BUILD}/sim",
                          RATION_MEM=CONTEXT + 4 * MIB, RATION_MOVABLE="false")
    program = place.start("vmm", "bound").await_word("bound")
    assert place.truth() == {program.pid: place.charged()} == {program.pid: CONTEXT + 4 * MIB}
    program.go().await_word("free")
    assert place.charged() == CONTEXT
    program.go().end()


def test_what_was_exported_and_is_let_go(place):
    """Whoever imported it holds it from then on, and finds it when he looks."""
    place.settings.update(RATION_MEM=512 * MIB, RATION_MOVABLE="false")
    idle = place.start("vmm", "handed", "idle").await_word("ready")
    program = place.start("vmm", "handed").await_word("ready").go().await_word("idle")
    importer = place.start("vmm", "handed", "importer").await_word("ready")
    os.kill(importer.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, importer.pid, os.WSTOPPED | os.WNOWAIT)
    program.go().await_word("stopped")
    os.kill(importer.pid, signal.SIGCONT)
    program.go().end()
    importer.go().end()
    idle.go().end()


def test_what_a_green_context_costs(place):
    place.run("context", "green", RATION_MEM=CONTEXT + 60 * MIB, RATION_LOG="error", HELD="cuGreenCtxCreate",
              LD_LIBRARY_PATH=f"{BUILD}/preload/holding:{BUILD}/sim")
    assert place.most() <= CONTEXT + 60 * MIB
