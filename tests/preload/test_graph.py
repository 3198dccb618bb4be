"""Memory of graphs: reserved when they are instantiated, then what their store holds."""
import itertools

import pytest

from conftest import CONTEXT, MIB, OUT_OF_MEMORY

LIMIT = 256 * MIB


def test_a_graph_has_its_memory(place):
    program = place.start("graph", "reserve", RATION_MEM=LIMIT).await_word("launched")
    assert place.truth() == {program.pid: place.charged()} == place.slots()
    program.go().await_word("trimmed")
    assert place.truth() == {program.pid: CONTEXT}
    program.go().end()


def test_what_was_trimmed_is_taken_again(place):
    program = place.start("graph", "again", RATION_MEM=LIMIT).await_word("refused")
    assert place.truth() == {program.pid: place.charged()}
    assert place.charged() <= LIMIT
    program.go().end()


def test_an_upload_with_the_graph(place):
    """It takes memory as a launch beside others does, not as a graph that is to be launched."""
    limit = CONTEXT + 300 * MIB
    program = place.start("graph", "uploaded", RATION_MEM=limit).await_word("uploaded")
    assert place.truth() == {program.pid: place.charged()}
    assert place.most() <= limit
    program.go().end()


def test_units_of_the_store(place):
    program = place.start("graph", "units", RATION_MEM=LIMIT - 2 * MIB).await_word("refused")
    assert place.truth() == {program.pid: place.charged()}
    assert place.charged() <= LIMIT - 2 * MIB
    program.go().end()


@pytest.mark.parametrize("case", ["idle", "kept", "run-shared", "anew", "inside", "captured", "shared"])
def test_graphs(place, case):
    place.run("graph", case, RATION_MEM=LIMIT, err=None)


@pytest.mark.parametrize("seconds", [1.5] * 2)
def test_graphs_of_many_threads(place, seconds):
    """What one launch takes, or counts on, no other has meanwhile."""
    place.run("graph", "crowd", seconds, RATION_MEM=400 * MIB, RATION_LOG="error")
    assert place.most() <= 400 * MIB


@pytest.mark.parametrize("call", ["cuGraphInstantiate", "cuGraphGetNodes", "cuGraphNodeGetType",
                                  "cuGraphMemAllocNodeGetParams", "cuGraphLaunch", "cuGraphExecDestroy",
                                  "cuDeviceGraphMemTrim", "cuDeviceGetGraphMemAttribute"])
def test_a_call_that_fails(place, call):
    for nth, code in itertools.product((1, 2, 3), (OUT_OF_MEMORY, 999)):
        place.region.unlink(missing_ok=True)
        place.run("graph", "faults", RATION_MEM="512m", RATION_SIM_FAULT=f"{call}:{nth}={code}",
                  RATION_LOG="error")
