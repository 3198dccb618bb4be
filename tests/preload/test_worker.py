"""The library's worker: what no call shows is counted, and the program does not notice it."""
import pytest

from conftest import BUILD


def test_the_thread(place):
    place.run("worker", "thread", RATION_MEM="512m")


@pytest.mark.plain
def test_memory_that_no_call_shows(place):
    place.run("worker", "unseen", BUILD / "preload" / "libunseen.so", RATION_MEM="512m",
              RATION_LOG="error")
