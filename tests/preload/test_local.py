"""Local memory is reserved before the launch that needs it, and never beyond the limit."""
from conftest import CONTEXT, MIB

SMS = 16


def area(thread_bytes):
    """What an area takes beyond what the context has, on the software GPU."""
    return (thread_bytes - 1024) * 2048 * SMS


# field fault: a launch took 1.9 GiB of a limit of 1
def test_a_launch_beyond_the_limit(place):
    place.settings["RATION_LOG"] = "error"
    place.sim["sms"] = SMS
    program = place.start("local", "refused", RATION_MEM=CONTEXT + area(4096) + 16 * MIB)
    program.await_word("refused")
    assert sum(place.truth().values()) == place.charged() < CONTEXT + 16 * MIB
    program.go().await_word("medium")
    assert sum(place.truth().values()) == place.charged() > CONTEXT + area(4096)
    program.go().end()


def test_the_most_counts(place):
    place.sim["sms"] = SMS
    program = place.start("local", "most", RATION_MEM="1g").await_word("large")
    assert place.truth() == {program.pid: place.charged()}
    program.go().end()
