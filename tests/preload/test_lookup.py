"""Every way to a driver function leads to the hook, and every other lookup is as without us."""
import sys

import pytest

from conftest import LIBRARY, NOT_INITIALIZED, OUT_OF_MEMORY, hook_rows, library

DRIVER = "open=libcuda.so.1"


def where(place, *steps, **kwargs):
    return place.run("where", *steps, **kwargs).lines


@pytest.mark.parametrize("mode", ["local", "global", "lazy"])
def test_lookup_on_the_driver_s_handle(place, mode):
    assert where(place, f"{DRIVER},{mode}", "handle:cuMemAlloc_v2", "handle:cuGetErrorName",
                 "handle:cuMemAlloc_v2", "error", "init") == [
        f"{DRIVER} opened", "handle:cuMemAlloc_v2 libration.so cuMemAlloc_v2",
        "handle:cuGetErrorName libcuda.so.1 cuGetErrorName",
        "handle:cuMemAlloc_v2 libration.so cuMemAlloc_v2", "error none", "init 0"]


def test_every_hook_is_found_by_handle(place):
    for file, prefix in (("libcuda.so.1", "cu"), ("libnvidia-ml.so.1", "nvml")):
        names = [name for name in hook_rows() if name.startswith(prefix)]
        assert len(names) > 10
        steps = [f"open={file}", *(f"handle:{name}" for name in names)]
        assert where(place, *steps)[1:] == [f"handle:{name} libration.so {name}" for name in names]
        assert where(place, *steps, preload=())[1:] == [f"handle:{name} {file} {name}" for name in names]


# field fault 31: RTLD_NEXT by-passed the hooks, and answered NULL the second time
# field fault 140
@pytest.mark.parametrize("how", ["default", "next", "self", "tail", "tailnext"])
def test_lookup_without_a_handle(place, how):
    step = f"{how}:cuMemAlloc_v2"
    assert where(place, f"{DRIVER},global", step, step, "error", f"{how}:cuGetErrorName") == [
        f"{DRIVER} opened", f"{step} libration.so cuMemAlloc_v2",
        f"{step} libration.so cuMemAlloc_v2", "error none",
        f"{how}:cuGetErrorName libcuda.so.1 cuGetErrorName"]


@pytest.mark.parametrize("steps", [
    ["default:puts", "error", "next:puts", "self:puts", "tail:malloc"],
    ["default:cuNoSuchCall", "error", "error", "next:cuNoSuchCall", "error"],
    ["self:nvmlNoSuchCall", "error", "tail:cuda", "error", "default:cu", "error", "default:nv"],
    ["tailnext:cuNoSuchCall", "error", "default:c", "default:n", "error"],
    ["open=libm.so.6", "handle:cos", "handle:cuMemAlloc_v2", "error", "handle:cuNoSuch", "error"],
    [DRIVER, "handle:cuNoSuchCall", "error", "error", "handle:cuMemAlloc_v9", "error", "handle:puts"],
    ["open=libnosuch.so", "error", "handle:puts", "error"],
    [DRIVER, "close", "default:puts", "error"],
])
@pytest.mark.plain
def test_other_lookups_are_as_without_us(place, steps):
    assert where(place, *steps) == where(place, *steps, preload=())


def test_no_error_is_left_by_a_good_lookup(place):
    """Our own lookups miss what the driver lacks, and leave no dlerror."""
    assert where(place, DRIVER, "handle:cuInit", "error", "default:cuInit", "error")[2::2] == \
        ["error none", "error none"]


# field fault 36
@pytest.mark.parametrize("how", ["default", "next", "self", "tail", "tailnext"])
def test_lookup_without_a_driver_finds_nothing(place, how):
    lines = where(place, f"{how}:cuInit", "error", f"{how}:nvmlDeviceGetMemoryInfo", "error")
    assert lines[0] == f"{how}:cuInit NULL"
    assert lines[1].endswith("undefined symbol: cuInit")
    assert lines[2] == f"{how}:nvmlDeviceGetMemoryInfo NULL"
    assert lines[3].endswith("undefined symbol: nvmlDeviceGetMemoryInfo")


def test_the_driver_is_found_when_it_comes_late(place):
    assert where(place, "default:cuInit", f"{DRIVER},global", "default:cuInit", "handle:cuInit") == [
        "default:cuInit NULL", f"{DRIVER} opened", "default:cuInit libration.so cuInit",
        "handle:cuInit libration.so cuInit"]


def test_a_foreign_library_keeps_its_own_name(place):
    """Its handle gives its own function, with the driver in the process and without."""
    foreign = f"open={library('foreign')}"
    assert where(place, foreign, "handle:cuMemAlloc_v2")[1] == \
        "handle:cuMemAlloc_v2 libforeign.so cuMemAlloc_v2"
    assert where(place, DRIVER, foreign, "handle:cuMemAlloc_v2")[2] == \
        "handle:cuMemAlloc_v2 libforeign.so cuMemAlloc_v2"


# field fault 29: a library that looks its own name up in another called itself for ever
@pytest.mark.plain
def test_a_library_that_looks_up_its_own_name_in_another(place):
    foreign = f"open={library('foreign')}"
    expected = [f"{foreign} opened", "handle:cufoo libforeign.so cufoo",
                "ask:foreign_ask_other libbackend.so cufoo"]
    steps = [foreign, "handle:cufoo", "ask:foreign_ask_other"]
    assert where(place, *steps) == expected == where(place, *steps, preload=())
    assert where(place, DRIVER, *steps)[1:] == expected


def test_rtld_next_of_a_library(place):
    foreign = f"open={library('foreign')}"
    assert where(place, f"{DRIVER},global", foreign, "ask:foreign_ask_next")[2] == \
        "ask:foreign_ask_next libration.so cuMemAlloc_v2"
    assert where(place, foreign, "ask:foreign_ask_next")[1] == "ask:foreign_ask_next NULL"


def test_closing_the_driver(place):
    """Our reference keeps it: pointers that the program still holds stay good."""
    assert where(place, DRIVER, "handle:cuInit", "close", DRIVER, "handle:cuInit", "init") == [
        f"{DRIVER} opened", "handle:cuInit libration.so cuInit", "close 0", f"{DRIVER} opened",
        "handle:cuInit libration.so cuInit", "init 0"]


# field fault 46: a bundled runtime opened with RTLD_DEEPBIND
@pytest.mark.parametrize("flag", ["deep", "space"])
@pytest.mark.plain
def test_what_a_preload_cannot_cover_is_harmless(place, flag):
    """RTLD_DEEPBIND and dlmopen: by our dlsym they are seen or not, but nothing breaks."""
    lines = where(place, f"{DRIVER},{flag}", "handle:cuMemAlloc_v2", "init")
    assert lines[0] == f"{DRIVER} opened"
    assert lines[1].endswith("cuMemAlloc_v2") and lines[2] == "init 0"


# field fault 44: a program linked with the driver had no real pointer
@pytest.mark.parametrize("program", ["linked", "linked_now"])
def test_linked_program(place, program):
    assert place.run(program, RATION_MEM="128m").lines == [
        "cuMemAlloc_v2 libration.so", "cuGetErrorName libcuda.so.1", f"more {OUT_OF_MEMORY}"]
    assert place.run(program, preload=()).lines[0] == "cuMemAlloc_v2 libcuda.so.1"


def test_a_copy_of_the_library_beside_it(place):
    """Two copies load both; one works, the other is idle, and the limit holds."""
    copy = place.folder / "libcopy.so"
    copy.write_bytes(LIBRARY.read_bytes())
    for order in ([LIBRARY, copy], [copy, LIBRARY]):
        place.region.unlink(missing_ok=True)
        assert place.run("linked", preload=order, RATION_MEM="128m").lines[2] == \
            f"more {OUT_OF_MEMORY}"
        assert where(place, DRIVER, "handle:cuMemAlloc_v2", "init", preload=order)[2] == "init 0"


# field fault 89: two libraries that hook the same calls, in either order
@pytest.mark.parametrize("name", ["second",
                                  pytest.param("second_dlsym", marks=pytest.mark.plain)])
def test_a_second_hooking_library(place, name):
    second = library(name)
    for order in ([second, LIBRARY], [LIBRARY, second]):
        place.region.unlink(missing_ok=True)
        lines = place.run("linked", preload=order, RATION_MEM="128m").lines
        assert lines[0] == f"cuMemAlloc_v2 {order[0].name}"
        assert lines[2] == f"more {OUT_OF_MEMORY}"
        lines = where(place, DRIVER, "handle:cuInit", "handle:cuGetErrorName", "init",
                      "next:cuMemAlloc_v2", "next:cuMemAlloc_v2", preload=order)
        assert lines[2:4] == ["handle:cuGetErrorName libcuda.so.1 cuGetErrorName", "init 0"]
        # A dlsym that stands before ours and goes on to libc's by dlvsym is past us.
        if order[0].name != "libsecond_dlsym.so":
            assert lines[1] == "handle:cuInit libration.so cuInit"
            assert lines[4] == lines[5] == "next:cuMemAlloc_v2 libration.so cuMemAlloc_v2"


@pytest.mark.plain
def test_a_malloc_of_the_program_s_own(place):
    """It looks malloc up by dlsym from inside malloc, before anything else runs."""
    flaky = library("flaky")
    for order in ([flaky, LIBRARY], [LIBRARY, flaky]):
        place.region.unlink(missing_ok=True)
        assert place.run("linked", preload=order, RATION_MEM="128m").lines[2] == \
            f"more {OUT_OF_MEMORY}"
        assert where(place, DRIVER, "handle:cuInit", "init", preload=order)[2] == "init 0"


# field fault 36
def test_weak_references_without_a_driver(place):
    """They are there, for we export them; each answers an ordinary error."""
    lines = place.run("weak").lines
    assert [line.split()[1] for line in place.run("weak", preload=()).lines] == ["none"] * len(lines)
    values = {line.split()[0]: int(line.split()[1]) for line in lines}
    assert values.pop("cuInit") == 100
    assert values.pop("nvmlDeviceGetMemoryInfo") == values.pop("nvmlDeviceGetMemoryInfo_v2") == 12
    assert set(values.values()) == {NOT_INITIALIZED}
    assert not place.region.exists()


@pytest.mark.plain
@pytest.mark.parametrize("load", ["CDLL('libcuda.so.1')", "CDLL(None)"])
def test_python_ctypes(place, load):
    script = f"""
import ctypes
keep = ctypes.CDLL('libcuda.so.1', mode=ctypes.RTLD_GLOBAL)
driver = ctypes.{load}
size, ctx, p = ctypes.c_size_t(), ctypes.c_void_p(), ctypes.c_uint64()
assert driver.cuInit(0) == 0
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0) == 0
assert driver.cuCtxSetCurrent(ctx) == 0
assert driver.cuDeviceTotalMem_v2(ctypes.byref(size), 0) == 0
print(size.value >> 20, driver.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(128 << 20)))
try:
    driver.cuNoSuchCall
except AttributeError as err:
    print(str(err).split(':')[-1].strip())
"""
    assert place.run(sys.executable, "-c", script, RATION_MEM="128m").lines == \
        [f"128 {OUT_OF_MEMORY}", "cuNoSuchCall"]


@pytest.mark.plain
def test_python_ctypes_without_a_driver(place):
    """CDLL(None) must not show what is not there."""
    script = "import ctypes; print(hasattr(ctypes.CDLL(None), 'cuInit'))"
    assert place.run(sys.executable, "-c", script).lines == ["False"]


@pytest.mark.plain
def test_python_cffi(place):
    pytest.importorskip("cffi")
    script = """
import cffi
ffi = cffi.FFI()
ffi.cdef("int cuInit(unsigned); int cuDeviceTotalMem_v2(size_t *, int); int cuNoSuchCall(void);")
driver = ffi.dlopen('libcuda.so.1')
size = ffi.new('size_t *')
assert driver.cuInit(0) == 0 and driver.cuDeviceTotalMem_v2(size, 0) == 0
print(size[0] >> 20, hasattr(driver, 'cuNoSuchCall'))
"""
    assert place.run(sys.executable, "-c", script, RATION_MEM="128m").lines == ["128 False"]


# field fault 94: a driver newer than our tables
def test_an_unknown_name_is_the_driver_s(place):
    assert where(place, DRIVER, "handle:cuGetErrorString", "handle:cuGetExportTable")[1:] == [
        "handle:cuGetErrorString libcuda.so.1 cuGetErrorString",
        "handle:cuGetExportTable libcuda.so.1 cuGetExportTable"]
