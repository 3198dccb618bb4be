"""Managed variables of modules and libraries are charged as long as those are loaded."""
import pytest

from conftest import CONTEXT, MIB


@pytest.mark.parametrize("contexts", ["true", "false"])
@pytest.mark.parametrize("case", [["module"], ["context"], ["library"], ["library", "preserved"]], ids=" ".join)
def test_managed_variables(place, case, contexts):
    """Also where what modules need beside them does not count."""
    place.run("managed_variable", *case, RATION_MEM=2 * CONTEXT + 256 * MIB, RATION_CHARGE_CONTEXT=contexts,
              CUDA_MODULE_LOADING="LAZY", RATION_LOG="error")
