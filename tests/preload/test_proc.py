"""cuGetProcAddress: the driver chooses, and what it chose is exchanged for its hook, and only that."""
import re
from pathlib import Path

import pytest

from conftest import OUT_OF_MEMORY, hook_rows

# Each form of a call came with a version; these stand on both sides of all of them.
VERSIONS = [0, 2000, 3010, 3020, 4000, 7000, 10000, 10020, 11000, 11030, 11040, 12000, 12020, 12040, 12050, 12080,
            13000, 13050]
NEWEST = "13.5"
HOOKS = set(hook_rows())
BASES = sorted({re.sub(r"(_v\d+)?(_pts[zd])?$", "", name) for name in HOOKS
                if name.startswith("cu")})


def plain_names():
    """Names of the table's calls that are only used, and some of neither kind."""
    table = (Path(__file__).parents[2] / "src" / "abi" / "cuda.def").read_text()
    used = {re.sub(r"_v\d+$", "", name) for name in re.findall(r"^USE\((\w+)\)", table, re.M)}
    return sorted(used) + ["cuGetErrorName", "cuEventRecord", "cuNoSuchCall", "cuGetExportTable",
                           "cuMemAlloc_v2", "cuMemFree_v2", "cuMemAl", "cuMemAllocX", "cu", "puts"]


# field faults 37 and 41: the newest form was handed out, whatever version was asked for
def test_every_name_version_and_flag(place):
    """The same answers as without us, but for the file where the symbol is one that we hook."""
    place.sim["driver"] = NEWEST
    argv = ["proc", "matrix", *VERSIONS, "--", *BASES, *plain_names()]
    ours, driver = place.run(*argv).lines, place.run(*argv, preload=()).lines
    assert len(ours) == len(driver) == 2 * 4 * len(VERSIONS) * len(argv[3 + len(VERSIONS):])
    hooked = set()
    for mine, theirs in zip(ours, driver):
        symbol = theirs.split()[-1]
        if symbol in HOOKS:
            hooked.add(symbol)
            assert mine == theirs.replace(" libcuda.so.1 ", " libration.so ")
        else:
            assert mine == theirs
    # All of the table was asked for.
    assert hooked == {row for row in HOOKS if row.startswith("cu")}


@pytest.mark.parametrize("driver", ["11.8", "12.4", "12.9"])
def test_older_drivers(place, driver):
    place.sim["driver"] = driver
    argv = ["proc", "matrix", 11000, 12000, 12050, 13000, "--", *BASES]
    ours, theirs = place.run(*argv).lines, place.run(*argv, preload=()).lines
    assert [line.replace("libration.so", "libcuda.so.1") for line in ours] == theirs
    assert any("libration.so" in line for line in ours)


# field fault 39: everything resolved through cuGetProcAddress's own answer for itself escaped
# field fault 95
def test_what_it_answers_for_itself_is_hooked(place):
    assert place.run("proc", "chain", RATION_MEM="128m").lines == [f"more {OUT_OF_MEMORY}"]
    assert place.run("proc", "chain", preload=()).lines == ["more 0"]


# field fault 97
@pytest.mark.parametrize("case", ["odd", "early"])
def test_odd_arguments_and_early_calls(place, case):
    assert place.run("proc", case).lines == place.run("proc", case, preload=()).lines
