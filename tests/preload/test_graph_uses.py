"""An oversubscribed tenant: what graphs use comes to the card as what launches use does."""
import pytest

from conftest import BUILD

WAYS = ["captured", "node", "buffer", "child", "copied", "filled", "set", "set_old", "set_child", "set_within",
        "set_any", "update", "update_set", "again"]


@pytest.fixture(name="little")
def make_little(place):
    """64 MiB of the tenant's memory on the card, 128 MiB in host memory."""
    place.settings = {"RATION_OVERSUBSCRIBE": "true", "RATION_RESIDENT": "64m", "RATION_HOST": "128m",
                      "RATION_MEM": "12g"}
    return place


@pytest.mark.plain
@pytest.mark.parametrize("way", WAYS)
def test_what_a_graph_uses_comes_to_the_card(little, way):
    """One comes, one goes; and nothing moves after that."""
    assert little.run("spill", "hot", way).values["moved"] == 32


@pytest.mark.plain
def test_what_the_driver_refuses_changes_nothing(little):
    calls = "cuGraphExecKernelNodeSetParams", "cuGraphExecUpdate", "cuGraphExecDestroy"
    faults = ",".join(f"{call}:1=999" for call in calls)
    assert little.run("spill", "hot", "refused", RATION_SIM_FAULT=faults).values["moved"] == 32


@pytest.mark.plain
@pytest.mark.parametrize("driver,way,moved", [
    # Kernels by the first form of the question.
    ("without_kernel_params2", "child", 32),
    # A buffer of parameters needs no sizes; others are not seen, nor nodes that are not told of.
    ("without_param_info", "buffer", 32), ("without_param_info", "captured", 0), ("without_graph_nodes", "captured", 0)])
def test_older_drivers(little, driver, way, moved):
    folders = f"{BUILD}/preload/{driver}:{BUILD}/sim"
    rounds = 3000 if moved else 500
    assert little.run("spill", "hot", way, rounds, LD_LIBRARY_PATH=folders).values["moved"] == moved


def test_graphs_that_change_and_end_while_others_run(little):
    assert little.run("replays").out == "end\n"
