"""Wrong calls: exactly the driver's answers, and nothing stays charged for any of them."""
from conftest import MIB


def test_wrong_calls(place):
    place.sim["count"] = 2
    program = place.start("wrong", RATION_MEM=512 * MIB, RATION_LOG="error").await_word("before")
    before = place.charged()
    program.go().await_word("after")
    assert place.charged() == before
    ours = program.go().end().lines
    theirs = place.start("wrong", preload=()).await_word("before").go().await_word("after").go()
    theirs = theirs.end().lines
    assert len(ours) == len(theirs) > 200
    assert [pair for pair in zip(ours, theirs) if pair[0] != pair[1]] == []


def test_wrong_calls_over_the_limit(place):
    """Where no right call is served, wrong ones are told what is wrong with them all the same."""
    program = place.start("quota", "over", RATION_MEM=512 * MIB, RATION_LOG="error")
    program.await_word("before")
    place.set_limit(1)
    ours = program.go().end().lines
    theirs = place.start("quota", "over", preload=()).await_word("before").go().end().lines
    assert (ours.pop(), theirs.pop()) == ("right 2", "right 0")
    assert len(ours) > 5 and ours == theirs
