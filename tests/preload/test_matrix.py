"""Every way to get device memory under a limit: never more than it, and exactly it."""
import sys
import time
from pathlib import Path

import pytest

from conftest import BUILD, MIB, OUT_OF_MEMORY, SANITIZED, needs

sys.path.insert(0, str(Path(__file__).parents[1] / "gpu"))

from matrix_table import ROWS, run_row, table  # noqa: E402

LIMIT = 1024 * MIB
# Ways whose refusal is an error of its own.
SAID = {"context": "a context needs 64 MiB", "context-v4": "a context needs 64 MiB"}


@pytest.fixture(scope="module")
def outcomes():
    done = []
    yield done
    if len(done) == len(ROWS):
        text = table(done, "Obtained under 1 GiB on the software GPU:")
        (BUILD / "matrix.md").write_text(text)
        print(text)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name.replace(" ", "-"))
def test_way(place, outcomes, row):
    needs(row.piece != 1 or not SANITIZED, "two million pieces take too long here")
    program = place.start("matrix", row.way, row.piece, row.most, RATION_MEM=LIMIT, RATION_LOG="error")

    def await_word(word):
        heard = len(program.said)
        program.await_word(word)
        return {name: int(value) for name, value in map(str.split, program.said[heard:-1])}

    charged = []

    def card():
        # What was exported counts at the end until whoever imports has looked (core/handed.h).
        end = time.monotonic() + 30
        while len(charged) == 2 and place.charged() != charged[0] and time.monotonic() < end:
            time.sleep(0.02)
        charged.append(place.charged())
        return sum(place.truth().values())

    o = run_row(row, LIMIT, await_word, program.go, card)
    outcomes.append(o)
    err = program.end().err
    assert SAID[row.way] in err if row.way in SAID else err == ""
    if not o.is_available:
        pytest.skip(o.note)
    assert o.is_within and charged[1] <= LIMIT, o.note
    # Not for a moment.
    assert place.most() <= LIMIT
    # What is charged is what the card has given; managed memory it does not show.
    assert charged == [o.overhead, o.held, o.overhead]
    assert o.empty == o.overhead
    assert o.result == OUT_OF_MEMORY
    assert o.is_exact, f"{(LIMIT - o.held) / MIB:g} MiB are left, a piece takes {o.step / MIB:g}"


def test_without_the_library_the_card_is_the_limit(place):
    """The judge judges."""
    place.sim["mem"] = "128m"
    program = place.start("matrix", "alloc", 2 * MIB, 4096, preload=()).await_word("ready")
    program.go().await_word("full")
    assert sum(place.truth().values()) == 128 * MIB
    program.go().await_word("empty").go().end()
