"""Modules and libraries of machine code: what they take is reserved before the driver has it."""
import itertools

import pytest

from conftest import BLOCK, BUILD, CONTEXT, MIB

FORMS = ["elf", "fatbin", "fatbin-packed", "fatbin-zstd"]
CALLS = ["", "-file", "-library", "-library-preserved", "-library-copied", "-library-file"]


@pytest.mark.some
@pytest.mark.parametrize("loading", [None, "EAGER"])
@pytest.mark.parametrize("how", [form + call for form, call in itertools.product(FORMS, CALLS)])
def test_never_above_the_limit(place, how, loading):
    limit = CONTEXT + 30 * MIB
    program = place.start("module", "load", how, RATION_MEM=limit, CUDA_MODULE_LOADING=loading).await_word("loaded")
    assert place.truth() == {program.pid: place.charged()}
    program.go().end()
    assert place.most() <= limit


WAYS = ["get", "launch", "load", "ask", "set", "occupancy", "graph"]


@pytest.mark.some
@pytest.mark.parametrize("how", WAYS + ["library-get", "library-kernel"])
def test_code_that_comes_with_its_first_use(place, how):
    """Modules were loaded while there was room, and their code came when there was none."""
    limit = CONTEXT + 40 * MIB
    program = place.start("module", "lazy", how, 1, RATION_MEM=limit, RATION_MOVABLE="false",
                          CUDA_MODULE_LOADING="LAZY").await_word("used")
    assert place.truth() == {program.pid: place.charged()}
    program.go().end()
    assert place.most() <= limit


@pytest.mark.parametrize("how", ["get", "launch"])
def test_code_does_not_count(place, how):
    """Where contexts and modules do not count, none is refused."""
    program = place.start("module", "lazy", how, 24, RATION_MEM=40 * MIB, RATION_MOVABLE="false",
                          RATION_CHARGE_CONTEXT="false", CUDA_MODULE_LOADING="LAZY").await_word("used")
    program.go().end()


@pytest.mark.some
@pytest.mark.parametrize("how", WAYS + ["library-get", "library-kernel", "library-launch"])
def test_large_code(place, how):
    limit = CONTEXT + 100 * MIB
    program = place.start("module", "lazy-large", how, RATION_MEM=limit, RATION_MOVABLE="false",
                          CUDA_MODULE_LOADING="LAZY").await_word("used")
    program.go().end()
    assert place.most() <= limit


def test_a_library_that_another_device_needs_less_of(place):
    place.sim.update(count="2", cc="9.0/8.0")
    program = place.start("module", "elsewhere", RATION_MEM=CONTEXT + 100 * MIB, RATION_MOVABLE="false",
                          CUDA_MODULE_LOADING="LAZY").await_word("refused")
    program.go().end()
    assert place.most() <= CONTEXT + 100 * MIB


@pytest.mark.parametrize("limit,answer", [(CONTEXT + 100 * MIB, 2), (None, 0)])
def test_what_takes_nobody_knows_how_much(place, limit, answer):
    place.start("module", "unknown", answer, RATION_MEM=limit).await_word("loaded").go().end()


@pytest.mark.parametrize("how", ["variables"] + WAYS + ["library-kernel", "library-launch"])
def test_what_took_more_than_was_known(place, how):
    program = place.start("module", "unread", how, RATION_MEM=CONTEXT + 100 * MIB, RATION_MOVABLE="false",
                          CUDA_MODULE_LOADING="LAZY").await_word("used")
    program.go().end()


@pytest.mark.some
@pytest.mark.parametrize("share", [None, "95"])
@pytest.mark.parametrize("loading", ["LAZY", "EAGER"])
@pytest.mark.parametrize("device", [0, 1])
@pytest.mark.parametrize("how", ["launch", "get", "stream", "node"])
def test_a_kernel_in_another_context(place, how, device, loading, share):
    """Its library comes there with it, once more, and is let in there."""
    place.sim["count"] = "2"
    limit = 2 * CONTEXT + 100 * MIB
    program = place.start("module", "second", how, device, RATION_MEM=limit, RATION_MOVABLE="false",
                          RATION_SM=share, CUDA_MODULE_LOADING=loading).await_word("used")
    assert place.truth(0) == {program.pid: place.charged(0)}
    assert place.truth(1) == ({program.pid: place.charged(1)} if device else {})
    program.go().end()
    assert place.most() <= limit


@pytest.mark.parametrize("movable", ["true", "false"])
@pytest.mark.parametrize("how", ["made", "node", "any", "update", "child"])
def test_a_graph_of_another_context(place, how, movable):
    """Its kernels' libraries come to that context alone."""
    limit = 2 * CONTEXT + 100 * MIB
    program = place.start("module", "node", how, RATION_MEM=limit, RATION_MOVABLE=movable,
                          CUDA_MODULE_LOADING="LAZY").await_word("run")
    assert place.truth(0) == {program.pid: place.charged(0)}
    program.go().end()
    assert place.most() <= limit


@pytest.mark.parametrize("driver", ["sim", "preload/slow"])
def test_threads_with_contexts_of_their_own(place, driver):
    place.settings["LD_LIBRARY_PATH"] = f"{BUILD / driver}:{BUILD / 'sim'}"
    place.sim["count"] = "2"
    limit = 2 * CONTEXT + 24 * MIB
    program = place.start("module", "crowd", RATION_MEM=limit, RATION_MOVABLE="false",
                          CUDA_MODULE_LOADING="LAZY").await_word("over")
    assert place.charged(0) == place.charged(1) == 0
    assert place.truth(0) == place.truth(1) == {}
    program.go().end()
    assert place.most() <= limit


def test_a_module_fills_the_limit(place):
    limit = CONTEXT + 100 * MIB
    program = place.start("module", "exact", RATION_MEM=limit, RATION_MOVABLE="false").await_word("exact")
    program.go().end()
    assert place.most() == limit


def test_what_is_kept_back_ends(place):
    program = place.start("module", "kept", RATION_MEM=CONTEXT + 100 * MIB,
                          CUDA_MODULE_LOADING="LAZY").await_word("kept")
    program.go().end()


LODGERS = ["module", "library", "library-launch", "module-second", "library-second", "module-first"]


@pytest.mark.some
@pytest.mark.parametrize("loading", ["LAZY", "EAGER"])
@pytest.mark.parametrize("how", LODGERS)
def test_a_variable_in_a_block_of_allocations(place, how, loading):
    """It holds the block when the allocations are gone."""
    has_code = loading == "EAGER" or "launch" in how
    contexts = 2 if "second" in how else 1
    limit = contexts * CONTEXT + (160 if "first" in how else 100) * MIB
    program = place.start("module", "lodgers", how, 80 if has_code else 40, RATION_MEM=limit,
                          RATION_MOVABLE="false", CUDA_MODULE_LOADING=loading).await_word("freed")
    assert place.truth() == {program.pid: place.charged()}
    program.go().await_word("unloaded")
    assert place.truth() == {program.pid: contexts * CONTEXT}
    program.go().end()
    assert place.most() <= limit


def test_a_block_that_might_hold_a_variable(place):
    """It is free for all as soon as it is freed, where none is in it."""
    settings = {"RATION_MEM": 2 * CONTEXT + 100 * MIB, "RATION_MOVABLE": "false", "CUDA_MODULE_LOADING": "LAZY"}
    program = place.start("module", "lodger-shown", **settings).await_word("there")
    # Two contexts, the variable's block, and the one that is kept back.
    taker = place.start("module", "taker", 2 * CONTEXT // BLOCK + 2, **settings).await_word("there")
    program.go().await_word("freed")
    taker.go().await_word("taken").go().end()
    program.go().end()
    assert place.most() <= settings["RATION_MEM"]


def test_what_no_look_can_tell_stays_charged(place):
    """Where NVML lists no bytes what was reserved is the charge, until it is unloaded."""
    place.sim["pids"] = "bare"
    place.start("module", "untold", RATION_MEM=100 * MIB, RATION_MOVABLE="false",
                CUDA_MODULE_LOADING="LAZY").await_word("over").go().end()


def test_who_has_no_room_to_find_his_row(place):
    """What he loads counts all the same, before the row is found and after it."""
    place.sim["pids"] = "host"
    settings = {"RATION_MEM": 2 * CONTEXT + 80 * MIB, "RATION_MOVABLE": "false", "CUDA_MODULE_LOADING": "LAZY"}
    filler = place.start("module", "filler", **settings).await_word("full")
    late = place.start("module", "late", **settings).await_word("there")
    filler.go().await_word("freed")
    late.go().await_word("loaded")
    assert place.most() <= settings["RATION_MEM"]
    filler.go().end()
    late.go().end()
