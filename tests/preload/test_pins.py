"""What others than the GPU have the addresses of does not leave it."""
import time

import pytest

from conftest import BUILD, MIB, library
from test_movable import residency

PIECE = 20 * MIB
WAYS = ["dma-buf", "capable", "capable-of-many", "tokens", "sync", "ipc"]


@pytest.fixture(name="place")
def make_movable(place):
    place.settings.update(RATION_MOVABLE="true")
    return place


def on_card(place):
    return residency(place)[0][0]


def rdma(name):
    return BUILD / "preload" / "rdma" / name


def test_what_nobody_asked_of_leaves(place):
    program = place.start("pins", "nothing").await_word("ready")
    place.suspend(True)
    assert on_card(place) == 0
    place.suspend(False)
    program.go().await_word("freed").go().end()


@pytest.mark.parametrize("way", WAYS)
def test_it_stays_until_it_is_freed(place, way):
    """Alone of the two; and what comes at its place may leave again."""
    program = place.start("pins", way).await_word("ready")
    place.suspend(True)
    assert on_card(place) == PIECE
    place.suspend(False)
    assert on_card(place) == 2 * PIECE
    program.go().await_word("freed")
    place.suspend(True)
    assert on_card(place) == 0
    place.suspend(False)
    program.go().end()


@pytest.mark.parametrize("way", WAYS)
def test_it_comes_to_the_card_for_that(place, way):
    """No more than one piece has room there."""
    place.settings.update(RATION_OVERSUBSCRIBE="true", RATION_RESIDENT=PIECE + 2 * MIB, RATION_HOST="1g",
                          RATION_MEM="2g")
    program = place.start("pins", way).await_word("ready")
    assert on_card(place) == PIECE
    moved = residency(place)[0][2]
    assert moved == 2 * PIECE
    program.go().await_word("freed").go().end()


def refused(place):
    done = place.ask_suspend(True, 1)
    assert done.returncode != 0
    place.ask_suspend(False, 1)


@pytest.mark.parametrize("name", ["libibverbs.so.1", "libmlx5.so.1", "libgdrapi.so.2"])
def test_nothing_leaves_where_a_library_may_have_registered_it(place, name):
    program = place.start("pins", "library", rdma(name), RATION_LOG="warn").await_word("ready")
    refused(place)
    assert on_card(place) == 2 * PIECE
    done = program.go().await_word("freed").go().end()
    assert done.err.count("may have registered memory") == 1 and name.split(".")[0] in done.err


def test_the_operator_may_say_that_it_is_not_so(place):
    program = place.start("pins", "library", rdma("libibverbs.so.1"), RATION_RDMA="move",
                          RATION_LOG="warn").await_word("ready")
    place.suspend(True)
    assert on_card(place) == 0
    place.suspend(False)
    assert program.go().await_word("freed").go().end().err == ""


def test_a_library_that_is_linked_and_not_used_holds_nothing(place):
    program = place.start("pins", "library", rdma("libcufile.so.0")).await_word("ready")
    place.suspend(True)
    assert on_card(place) == 0
    place.suspend(False)
    program.go().await_word("freed").go().end()


def test_nor_does_another_library(place):
    program = place.start("pins", "library", library("foreign")).await_word("ready")
    place.suspend(True)
    assert on_card(place) == 0
    place.suspend(False)
    program.go().await_word("freed").go().end()


def test_nothing_goes_to_make_room(place):
    """What has no room lies in host memory, and what lies there may come."""
    place.settings.update(RATION_OVERSUBSCRIBE="true", RATION_RESIDENT=PIECE + 2 * MIB, RATION_HOST="1g",
                          RATION_MEM="2g")
    program = place.start("pins", "library", rdma("libibverbs.so.1")).await_word("ready")
    time.sleep(1)
    assert on_card(place) == PIECE
    assert residency(place)[0][2] == 0
    program.go().await_word("freed").go().end()


def test_another_word_is_an_error(place):
    place.run("pins", "nothing", RATION_RDMA="perhaps", status=1, err="neither move nor stay")
