"""What a movable tenant's program frees is had again at once, and is nobody else's loss."""
import pytest

from conftest import MIB

MOVABLE = {"RATION_MOVABLE": "true"}


@pytest.fixture(name="place")
def make_movable(place):
    place.settings.update(MOVABLE)
    return place


@pytest.mark.plain
def test_what_is_freed_while_nothing_runs_is_free_at_once(place):
    """Once all work was seen done the device is not asked again: it would not answer in time."""
    late = ",".join(f"cuEventQuery:{n}=600" for n in range(4, 60))
    place.run("spare", "small", RATION_SIM_FAULT=late)
