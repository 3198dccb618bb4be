"""Local memory is reserved before the launch that needs it, and never beyond the limit."""
import pytest

from conftest import CONTEXT, MIB

SMS = 16


def area(thread_bytes):
    """What an area takes beyond what the context has, on the software GPU."""
    return (thread_bytes - 1024) * 2048 * SMS


# A context, the area of 4 KiB and some modules; not the area of 8 KiB.
LIMIT = CONTEXT + area(4096) + 16 * MIB


@pytest.fixture(name="card")
def make_card(place):
    place.sim["sms"] = SMS
    place.settings["RATION_LOG"] = "error"
    return place


def same(card):
    """What is charged is what the card has given."""
    charged = card.charged()
    assert sum(card.truth().values()) == charged
    return charged


def test_a_launch_beyond_the_limit(card):
    program = card.start("local", "refused", RATION_MEM=LIMIT).await_word("refused")
    assert same(card) < CONTEXT + 16 * MIB
    program.go().await_word("medium")
    assert LIMIT >= same(card) > CONTEXT + area(4096)
    program.go().end()


def test_the_most_counts(card):
    program = card.start("local", "most", RATION_MEM="1g").await_word("large")
    same(card)
    program.go().end()


@pytest.mark.parametrize("handle", ["kernel", "function", "listed"])
@pytest.mark.parametrize("form", ["plain", "thread", "extended", "cooperative"])
def test_every_form(card, form, handle):
    program = card.start("local", "forms", form, handle, RATION_MEM=LIMIT).await_word("medium")
    assert LIMIT >= same(card) > CONTEXT + area(4096)
    program.go().end()


def test_each_context_has_its_own(card):
    program = card.start("local", "contexts", RATION_MEM=LIMIT + CONTEXT).await_word("one")
    assert CONTEXT * 2 + area(4096) < same(card) < LIMIT + CONTEXT
    program.go().await_word("other")
    assert CONTEXT + area(4096) < same(card) < LIMIT
    program.go().end()


def test_threads_at_once(card):
    program = card.start("local", "together", RATION_MEM=LIMIT).await_word("launched")
    assert same(card) > CONTEXT + area(4096)
    program.go().end()


def test_a_failed_launch_gives_back(card):
    card.run("local", "failed", RATION_MEM=LIMIT, RATION_SIM_FAULT="cuLaunchKernel:3=701")


@pytest.mark.parametrize("what", ["Module", "Library"])
def test_functions_of_what_is_not_unloaded(card, what):
    program = card.start("local", "stays", what.lower(), RATION_MEM=LIMIT,
                         RATION_SIM_FAULT=f"cu{what}Unload:1=999").await_word("medium")
    assert LIMIT >= same(card) > CONTEXT + area(4096)
    assert card.most() <= LIMIT
    program.go().end()


def test_the_stack_limit(card):
    program = card.start("local", "stack", RATION_MEM=LIMIT).await_word("shrunk")
    assert same(card) < CONTEXT + 16 * MIB
    program.go().await_word("grown")
    assert same(card) > CONTEXT + area(4096)
    program.go().end()


@pytest.mark.parametrize("share", [None, "95"])
def test_launches_like_earlier_ones(card, share):
    program = card.start("local", "repeated", RATION_MEM=LIMIT, RATION_SM=share).await_word("refused")
    assert same(card) <= LIMIT
    program.go().end()


@pytest.mark.parametrize("how", ["captured", "made"])
def test_graphs(card, how):
    program = card.start("local", "graph", how, RATION_MEM=LIMIT).await_word("instantiated")
    assert same(card) > CONTEXT + area(4096)
    program.go().await_word("launched")
    assert same(card) > CONTEXT + area(4096)
    program.go().end()
    assert card.most() <= LIMIT


WAYS = ["node", "node-v1", "update", "update-v1"]


@pytest.mark.parametrize("way", WAYS)
def test_a_changed_graph(card, way):
    """The driver may take it when the graph is changed, so it is reserved then."""
    program = card.start("local", "updated", way, RATION_MEM=LIMIT).await_word("refused")
    assert same(card) < CONTEXT + 16 * MIB
    program.go().await_word("launched")
    assert same(card) > CONTEXT + area(4096)
    program.go().end()
    assert card.most() <= LIMIT


@pytest.mark.parametrize("way", WAYS)
def test_a_kernel_whose_library_comes_with_it(card, way):
    program = card.start("local", "let-in", way, RATION_MEM=LIMIT).await_word("refused")
    assert same(card) < CONTEXT + 16 * MIB
    program.go().end()
    assert card.most() <= LIMIT


@pytest.mark.parametrize("way", WAYS)
def test_a_changed_graph_that_needs_less(card, way):
    """It has not let the area grow by what it needed once."""
    limit = CONTEXT + area(4096) + 17 * MIB
    program = card.start("local", "less", way, RATION_MEM=limit).await_word("launched")
    assert same(card) <= limit
    program.go().end()
    assert card.most() <= limit


def test_a_change_that_the_driver_refuses(card):
    program = card.start("local", "refused-change", RATION_MEM=LIMIT,
                         RATION_SIM_FAULT="cuGraphExecKernelNodeSetParams_v2:1=1").await_word("refused")
    assert same(card) <= LIMIT
    program.go().end()
    assert card.most() <= LIMIT


@pytest.mark.parametrize("handle", ["kernel", "function"])
@pytest.mark.parametrize("how", ["launch", "upload", "instantiate"])
def test_a_graph_in_streams_of_other_contexts(card, how, handle):
    limit = 5 * CONTEXT + area(4096) + 16 * MIB
    program = card.start("local", "streams", how, handle, RATION_MEM=limit).await_word("passed")
    assert same(card) <= limit
    program.go().end()
    assert card.most() <= limit


def test_a_graph_of_two_contexts(card):
    limit = 2 * CONTEXT + area(8192) + area(4096) + 32 * MIB
    program = card.start("local", "mixed", RATION_MEM=limit).await_word("refused")
    assert same(card) <= limit
    program.go().end()
    assert card.most() <= limit


def test_a_fork_child(card):
    program = card.start("local", "forked", RATION_MEM=LIMIT).await_word("launched")
    assert same(card) > CONTEXT + area(4096)
    program.go().end()
