"""The heap of the kernels' malloc, and what else they need of the driver, never pass the limit."""
import time

import pytest

from conftest import BUILD, MIB

LIMIT = 400 * MIB
LOADING = ["LAZY", "EAGER"]


@pytest.fixture(name="card", params=LOADING)
def make_card(place, request):
    place.sim["sms"] = 16
    place.settings.update(RATION_LOG="error", RATION_MEM=LIMIT, CUDA_MODULE_LOADING=request.param)
    return place


def same(card):
    """What is charged is what the card has given, which was never more than the limit."""
    assert sum(card.truth().values()) == card.charged()
    assert card.most() <= LIMIT
    return card.charged()


def awaits(card, heap_bytes):
    """What is charged is that and a heap that is to come."""
    assert sum(card.truth().values()) + heap_bytes == card.charged()


def test_a_launch_when_all_is_full(card):
    program = card.start("heap", "late").await_word("loaded")
    awaits(card, 66 * MIB)
    program.go().await_word("launched")
    full = same(card)
    assert full > LIMIT - 4 * MIB
    program.go().await_word("unloaded")
    # The heap stays.
    assert same(card) > full - 8 * MIB
    program.go().end()


def test_what_finds_no_room_is_refused(card):
    program = card.start("heap", "refused").await_word("loaded")
    awaits(card, 66 * MIB)
    assert card.most() <= LIMIT
    program.go().end()


def test_unloaded_before_any_launch(card):
    program = card.start("heap", "unloaded").await_word("unloaded")
    same(card)
    program.go().end()


def test_a_context_ends(card):
    program = card.start("heap", "ended").await_word("ended")
    same(card)
    program.go().end()


@pytest.mark.parametrize("how", ["kernel", "graph"])
def test_a_library(card, how):
    program = card.start("heap", "library", how).await_word("loaded")
    awaits(card, 66 * MIB)
    program.go().await_word("launched")
    assert same(card) > LIMIT - 4 * MIB
    program.go().end()


def test_a_library_that_comes_while_a_module_goes(place):
    place.sim["sms"] = 16
    place.settings.update(RATION_LOG="error", RATION_MEM=LIMIT, HELD="cuKernelGetFunction",
                          LD_LIBRARY_PATH=f"{BUILD}/preload/holding:{BUILD}/sim")
    program = place.start("heap", "raced").await_word("loaded")
    awaits(place, 66 * MIB)
    program.go().await_word("launched")
    same(place)
    program.go().end()


def test_a_launch_with_local_memory(card):
    card.start("heap", "deep").await_word("loaded").go().await_word("launched")
    same(card)


def test_a_heap_that_is_smaller_than_local_memory(card):
    """A look at the card cannot tell the two; the driver can."""
    program = card.start("heap", "beside").await_word("launched")
    deadline = time.monotonic() + 30
    while sum(card.truth().values()) != card.charged() and time.monotonic() < deadline:
        time.sleep(0.02)
    full = same(card)
    program.go().await_word("unloaded")
    assert full - 8 * MIB < same(card) <= full
    program.go().end()


def test_a_heap_that_is_asked_for_meanwhile(card):
    program = card.start("heap", "asked").await_word("over")
    awaits(card, 4 * MIB)
    program.go().end()


def test_launches_that_wait(card):
    program = card.start("heap", "waiting").await_word("loaded")
    same(card)
    program.go().end()


def test_threads(card):
    program = card.start("heap", "threads").await_word("over")
    assert card.most() <= LIMIT
    program.go().end()


def test_where_the_card_cannot_be_asked(card):
    """What it has given is charged until it goes."""
    card.sim["pids"] = "bare"
    card.start("heap", "blind").await_word("unloaded").go().end()


def test_a_module_that_is_not_unloaded_where_the_card_cannot_be_asked(card):
    card.sim["pids"] = "bare"
    card.settings["RATION_SIM_FAULT"] = "cuModuleUnload:1=999"
    card.run("heap", "stays")


def test_limits_where_the_card_cannot_be_asked(card):
    """What a limit takes, or lets a launch take, is charged as what was loaded is."""
    card.sim["pids"] = "bare"
    card.start("heap", "raised").await_word("raised").go().end()


def test_other_processes_find_the_room_taken(place):
    """What one awaits another of the tenant cannot have."""
    place.sim["sms"] = 16
    place.settings.update(RATION_LOG="error", RATION_MEM=LIMIT)
    first = place.start("heap", "late").await_word("loaded")
    second = place.start("matrix", "alloc", 2 * MIB, 4096).await_word("ready")
    second.go().await_word("full")
    assert place.charged() > LIMIT - 4 * MIB
    first.go().await_word("launched")
    assert place.most() <= LIMIT
    first.go().await_word("unloaded").go().end()
    second.go().await_word("empty").go().end()
