"""Many processes with many threads share one limit and take and give back at random; some are killed.

As a test for a second or two; `make soak` makes it 64 processes of 8 threads for a minute each.
"""
import os
import random
import struct
import time

import pytest

from conftest import MIB, SANITIZED

FULL = bool(os.environ.get("RATION_SOAK"))
PROCESSES, THREADS, SECONDS = (64, 8, 60) if FULL else (6, 2, 1) if SANITIZED else (16, 4, 1.5)
# What they want is several times as much.
LIMIT = PROCESSES * THREADS * 8 * MIB


def has_begun(place):
    """The region's file is there and all of it, and something is charged."""
    try:
        return place.charged() > 0
    except (FileNotFoundError, struct.error):
        return False


@pytest.mark.parametrize("kills", [False, True])
def test_a_crowd(place, kills):
    place.sim["context"] = "2m"
    place.settings["RATION_MEM"] = LIMIT
    place.settings["RATION_LOG"] = "error"
    chance, seeds = random.Random(7), iter(range(1, 10**6))

    def start():
        return place.start("soak", "run", THREADS, next(seeds))

    first = start()
    while not has_begun(place):
        time.sleep(0.01)
    watcher = place.start("soak", "watch", preload=())
    members, killed = [first, *(start() for _ in range(PROCESSES - 1))], 0
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        time.sleep(0.05)
        if kills:
            place_in_list = chance.randrange(len(members))
            members[place_in_list].kill()
            members[place_in_list] = start()
            killed += 1
    got = sum(m.end(timeout=300).values["got"] for m in members)
    values = watcher.end().values
    print(f"{PROCESSES} processes of {THREADS} threads, {SECONDS} s: {got} allocations, {killed} killed,"
          f" at most {values['most'] / MIB:.1f} of {LIMIT / MIB:.0f} MiB in {values['looks']} looks,"
          f" {place.most() / MIB:.1f} on the card")
    assert got > 0
    assert 0.9 * LIMIT < values["most"] <= LIMIT
    assert place.most() <= LIMIT
    # What the killed held goes with the next process that looks, and then there is nothing.
    assert place.run("views", "nvml").values["nvml1.used"] == 0
    assert place.charged() == 0
    assert place.truth() == {}
