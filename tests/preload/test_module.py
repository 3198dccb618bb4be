"""Modules and libraries of machine code: what they take is reserved before the driver has it."""
import itertools

import pytest

from conftest import CONTEXT, MIB

FORMS = ["elf", "fatbin", "fatbin-packed"]
CALLS = ["", "-file", "-library", "-library-preserved", "-library-file"]


@pytest.mark.parametrize("loading", [None, "EAGER"])
@pytest.mark.parametrize("how", [form + call for form, call in itertools.product(FORMS, CALLS)])
def test_never_above_the_limit(place, how, loading):
    limit = CONTEXT + 100 * MIB
    program = place.start("module", "load", how, RATION_MEM=limit, CUDA_MODULE_LOADING=loading).await_word("loaded")
    assert place.truth() == {program.pid: place.charged()}
    program.go().end()
    assert place.most() <= limit
