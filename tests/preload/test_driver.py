"""Drivers that lack a function, or NVML: what is missing is as missing as without us."""
import shutil

import pytest

from conftest import BUILD, CONTEXT, MIB, PROGRAMS

NOT_FOUND = 500
DRIVER = "open=libcuda.so.1"


def use(place, driver, nvml=True):
    """Makes the programs find this driver first; and without NVML no NVML at all."""
    folder = PROGRAMS / driver if driver else place.folder / "driver"
    if not nvml:
        folder.mkdir(exist_ok=True)
        shutil.copy(BUILD / "sim" / "libcuda.so.1", folder)
        place.settings["LD_LIBRARY_PATH"] = folder
    else:
        place.settings["LD_LIBRARY_PATH"] = f"{folder}:{BUILD / 'sim'}"


WITHOUT = {
    "without_vmm": ["cuMemCreate", "cuMemRelease", "cuMemMap", "cuMemUnmap",
                    "cuMemRetainAllocationHandle"],
    "without_proc": ["cuGetProcAddress", "cuGetProcAddress_v2"],
    "without_proc2": ["cuGetProcAddress_v2"],
    "without_uuid2": [],
    "without_last": [],
    "without_context": ["cuCtxCreate_v3", "cuCtxCreate_v4", "cuMemAllocManaged",
                        "cuLibraryLoadData", "cuLibraryLoadFromFile", "cuLibraryUnload"],
}


@pytest.mark.parametrize("driver", WITHOUT)
def test_what_is_missing_is_not_handed_out(place, driver):
    use(place, driver)
    for name in WITHOUT[driver]:
        for how in ("handle", "default", "next", "self"):
            steps = [f"{DRIVER},global", f"{how}:{name}", "error"]
            ours = place.run("where", *steps).lines
            plain = place.run("where", *steps, preload=()).lines
            assert ours[1] == plain[1] == f"{how}:{name} NULL"
            # By a handle the text is the same; else the prefix is the file that looked.
            assert ours[2] == plain[2] if how == "handle" else ours[2].endswith(name)
    # We have looked for what is missing, and leave no error for the program.
    assert place.run("where", DRIVER, "handle:cuInit", "error", "handle:cuMemAlloc_v2", "init",
                     "error").lines[1:] == [
        "handle:cuInit libration.so cuInit", "error none",
        "handle:cuMemAlloc_v2 libration.so cuMemAlloc_v2", "init 0", "error none"]
    assert place.run("where", f"{DRIVER},global", "default:cuInit", "error").lines[1:] == [
        "default:cuInit libration.so cuInit", "error none"]


@pytest.mark.parametrize("driver", WITHOUT)
def test_the_limit_holds_all_the_same(place, driver):
    use(place, driver)
    program = place.start("quota", "exact", "alloc", 2 * MIB, RATION_MEM="256m").await_word("full")
    assert place.charged() == 256 * MIB == sum(place.truth().values())
    assert program.go().await_word("empty").go().end().values["pieces"] == 96
    place.run("context", "references", RATION_MEM="256m")


def test_a_call_of_what_is_missing(place):
    """A linked program finds our name; it answers an ordinary error."""
    use(place, "without_vmm")
    done = place.run("quota", "exact", "vmm", 2 * MIB, RATION_MEM="256m", status=1, err=None)
    assert f"res: {NOT_FOUND}, not 2" in done.err
    use(place, "without_context")
    done = place.run("quota", "exact", "managed", 2 * MIB, RATION_MEM="256m", status=1, err=None)
    assert f"res: {NOT_FOUND}, not 2" in done.err


def test_a_driver_that_cannot_name_its_devices(place):
    """Limits go by UUID: without it none can be held, so nothing is given."""
    use(place, "without_uuid")
    done = place.run("quota", "hold", 1, RATION_MEM="256m", status=1, err=None)
    assert "devices" in done.err and "cuInit(0): 101, not 0" in done.err


# field fault 122: cards for which NVML has no figures
def test_without_nvml(place):
    """What allocations take is counted; what only NVML could tell, the context, is not."""
    use(place, None, nvml=False)
    program = place.start("quota", "exact", "alloc", 2 * MIB, RATION_MEM="256m").await_word("full")
    assert place.charged() == 256 * MIB
    assert program.go().await_word("empty").go().end().values["pieces"] == 128


def test_nvml_alone_without_a_driver(place):
    """A monitor where libcuda is not installed: NVML's own answers, under the limit."""
    folder = place.folder / "nvml"
    folder.mkdir()
    shutil.copy(BUILD / "sim" / "libnvidia-ml.so.1", folder)
    place.settings["LD_LIBRARY_PATH"] = folder
    assert place.run("where", "open=libnvidia-ml.so.1", "handle:nvmlDeviceGetMemoryInfo",
                     "default:cuInit").lines[1:] == [
        "handle:nvmlDeviceGetMemoryInfo libration.so nvmlDeviceGetMemoryInfo", "default:cuInit NULL"]


@pytest.mark.parametrize("broken", [b"", b"not a library", None])
def test_a_driver_that_cannot_be_loaded(place, broken):
    """The program is told the same as without us."""
    folder = place.folder / "driver"
    folder.mkdir()
    if broken is not None:
        (folder / "libcuda.so.1").write_bytes(broken)
    place.settings["LD_LIBRARY_PATH"] = folder
    steps = [DRIVER, "error", "default:cuNoSuchCall", "error"]
    assert place.run("where", *steps).lines == place.run("where", *steps, preload=()).lines


def test_a_driver_that_fails_to_start(place):
    """cuInit answers the driver's own code, and a second try works."""
    for code in (100, 3, 999, 804):
        place.settings["RATION_SIM_FAULT"] = f"cuInit:1={code}"
        done = place.run("context", "untouched", status=1, err=None, RATION_MEM="256m")
        assert done.err.splitlines() == [line for line in done.err.splitlines()
                                         if f"cuInit(0): {code}, not 0" in line]
        assert not place.region.exists()


# field faults 46, 81, 82: a lock was held while a call stayed in the driver
@pytest.mark.parametrize("call", ["cuMemAlloc_v2", "cuMemAllocPitch_v2", "cuMemAllocManaged",
                                  "cuMemFree_v2", "cuMemCreate", "cuMemMap", "cuMemUnmap",
                                  "cuMemRelease", "cuModuleLoadData", "cuModuleUnload",
                                  "cuCtxCreate_v2", "cuCtxDestroy_v2"])
def test_a_call_that_stays_in_the_driver(place, call):
    use(place, "holding")
    place.run("held", call, RATION_MEM="512m", HELD=call)


# field fault 81: NVML was asked under the lock that every allocation took
@pytest.mark.plain
def test_a_question_of_nvml_that_stays_there(place):
    use(place, "busy")
    place.run("held", "nvml", RATION_MEM="512m")


def test_a_module_at_the_limit_beside_a_call(place):
    """What is reserved for it and not taken is no reason to refuse it."""
    use(place, "holding")
    place.run("held", "cuMemFree_v2", "full", RATION_MEM=2 * CONTEXT + 60 * MIB, HELD="cuMemFree_v2",
              RATION_MOVABLE="false", CUDA_MODULE_LOADING="LAZY", err=None)


@pytest.mark.parametrize("what", ["module", "heap", "buffer"])
def test_what_no_call_shows_beside_an_allocation(place, what):
    """What another thread has reserved and the driver has not given yet is not overlooked."""
    use(place, "holding")
    place.sim["heap"] = "set"
    place.run("beside", what, RATION_MEM="300m", HELD="cuMemAlloc_v2")
