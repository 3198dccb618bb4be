"""What is configured is held; what cannot be understood is said, and is never "no limit"."""
import os
import struct
import subprocess

import pytest

from conftest import (CONTEXT, HAMI_LIMIT, MIB, NOT_PERMITTED, OWN, PROGRAMS, is_root, needs)

pytestmark = pytest.mark.some

OPERATING_SYSTEM = 304


def refused(place, *texts, code=None, **settings):
    """cuInit fails, and one line says what is wrong with these texts in it."""
    done = place.run("context", "untouched", status=1, err=None, **settings)
    lines = [line for line in done.err.splitlines() if line.startswith("ration: ")]
    assert len(lines) == 1, done.err
    for text in texts:
        assert text in lines[0]
    assert f"cuInit(0): {code or NOT_PERMITTED}, not 0" in done.err
    return lines[0]


BAD_SIZES = ["4x", "-1", "", "1.5.2g", "99999999999999g", "g", "0x10m", "1 2g", "1g,", ",1g", "ten",
             "1gg", "٣g"]


@pytest.mark.parametrize("size", BAD_SIZES)
def test_sizes_that_are_none(place, size):
    line = refused(place, "RATION_MEM", RATION_MEM=size)
    assert "a size is a number with k, m, g or t, such as 512m or 1.5g" in line
    assert not place.region.exists()


def test_who_goes_on_without_cuinit_gets_nothing(place):
    done = place.run("context", "ignored", err=None, RATION_MEM="4x")
    assert done.values == dict.fromkeys(["init", "create", "retain", "green", "handle"], NOT_PERMITTED)


@pytest.mark.parametrize("size", [size for size in BAD_SIZES if "," not in size])
def test_hami_s_sizes_that_are_none(place, size):
    place.settings.update(RATION_REGION=None,
                          CUDA_DEVICE_MEMORY_SHARED_CACHE=place.folder / "hami.cache")
    for name in ("CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_MEMORY_LIMIT_1"):
        refused(place, name, **{name: size})


@pytest.mark.parametrize("size,limit_mib", [
    ("4Gi", 4096), ("1.5g", 1536), ("512m", 512), ("512MiB", 512), ("1073741824", 1024),
    ("1048576k", 1024), ("2G", 2048), ("0.5gb", 512),
])
def test_sizes_that_are_good(place, size, limit_mib):
    values = place.start("views", "all", 1, RATION_MEM=size).await_word("said").go().end().values
    assert values["info.total"] == limit_mib * MIB


@pytest.mark.parametrize("pct", ["0", "101", "-5", "abc", "30x", "", "1:", "2.5"])
def test_gpu_time_that_is_none(place, pct):
    line = refused(place, "RATION_SM", RATION_SM=pct, RATION_MEM="512m")
    assert "GPU time is in whole percents from 1 to 100, such as 30" in line


@pytest.mark.parametrize("name", ["CUDA_DEVICE_SM_LIMIT", "CUDA_DEVICE_SM_LIMIT_1"])
@pytest.mark.parametrize("pct", ["-5", "abc", "30x", ""])
def test_hami_s_gpu_time_that_is_none(place, name, pct):
    place.settings.update(RATION_REGION=None,
                          CUDA_DEVICE_MEMORY_SHARED_CACHE=place.folder / "hami.cache")
    refused(place, name, **{name: pct})


def test_gpu_time_of_unknown_devices(place):
    done = place.run("context", "untouched", status=1, err=None, RATION_SM="1:30")
    assert "RATION_SM: 1 names no device here" in done.err and "cuInit(0): 0" not in done.err


@pytest.mark.parametrize("settings,words", [
    ({"RATION_SM": "30"}, [30, 30]), ({"RATION_SM": "1:40"}, [100, 40]),
    ({"CUDA_DEVICE_SM_LIMIT": "20", "CUDA_DEVICE_SM_LIMIT_1": "0"}, [20, 20]),
    ({"CUDA_DEVICE_SM_LIMIT": "0"}, [100, 100]), ({}, [100, 100]),
])
def test_gpu_time_in_the_region(place, settings, words):
    """Where HAMi's monitors read it, from the first process on."""
    place.sim["count"] = 2
    program = place.start("views", "all", 2, **settings).await_word("said")
    assert list(struct.unpack_from("<2Q", place.region.read_bytes(), 1728)) == words
    program.go().end()


def test_zero(place):
    """On our own variable it is an error; in HAMi's it means that there is no limit."""
    refused(place, "RATION_MEM", RATION_MEM="0")
    place.settings.update(RATION_REGION=None,
                          CUDA_DEVICE_MEMORY_SHARED_CACHE=place.folder / "hami.cache")
    values = place.start("views", "all", 1, CUDA_DEVICE_MEMORY_LIMIT="0").await_word("said")
    assert values.go().end().values["info.total"] == 8192 * MIB


@pytest.mark.parametrize("spec,text", [
    ("1:1g", "1 names no device here; there are 1, from 0 (GPU-"),
    ("GPU-deadbeef:1g", "GPU-deadbeef names no device here"),
    ("0:1g,0:2g", "is a limit given twice"), ("x:1g", "names no device"),
    ("0:1g:2g", ""), ("GPU-:1g", "names no device"),
])
def test_unknown_devices(place, spec, text):
    code = 101 if "here" in text else None
    done = place.run("context", "untouched", status=1, err=None, RATION_MEM=spec)
    assert "RATION_MEM" in done.err and text in done.err and "cuInit(0): " in done.err
    assert code is None or "cuInit(0): 0" not in done.err


@pytest.mark.parametrize("name,value", [
    ("RATION_LOG", "loud"), ("RATION_CHARGE_CONTEXT", "perhaps"), ("CUDA_DISABLE_CONTROL", "maybe"),
])
def test_words_that_are_none(place, name, value):
    refused(place, name, value, **{name: value, "RATION_MEM": "512m"})


# field fault 129: the presence of the variable was taken for yes
@pytest.mark.parametrize("value,is_off", [
    ("true", True), ("1", True), ("TRUE", True), ("yes", True), ("false", False), ("0", False),
    ("", False), (None, False),
])
def test_disable_control(place, value, is_off):
    """True is a real pass-through from the first call: no region, no limit, nothing written."""
    cache = place.folder / "hami.cache"
    place.settings.update(RATION_REGION=None, CUDA_DEVICE_MEMORY_SHARED_CACHE=cache,
                          CUDA_DEVICE_MEMORY_LIMIT="128m", CUDA_DISABLE_CONTROL=value)
    assert place.run("linked").lines[2] == ("more 0" if is_off else "more 2")
    assert cache.exists() != is_off
    assert place.run("views", "nvml").values["nvml1.total"] == (8704 if is_off else 128) * MIB


def test_disable_control_below_ration_run(place):
    """Who was started with a region of `ration run` does not leave it so."""
    assert place.run("linked", RATION_MEM="128m", CUDA_DISABLE_CONTROL="true").lines[2] == "more 2"


def test_contexts_that_do_not_count(place):
    place.settings.update(RATION_MEM="128m", RATION_CHARGE_CONTEXT="false")
    program = place.start("quota", "exact", "alloc", 2 * MIB).await_word("full")
    assert place.charged() == 128 * MIB and sum(place.truth().values()) == CONTEXT + 128 * MIB
    assert program.go().await_word("empty").go().end().values["pieces"] == 64


# field faults 100 and 127: output at the default level; a crash at the highest
@pytest.mark.parametrize("settings,says", [
    ({}, False), ({"LIBCUDA_LOG_LEVEL": "0"}, False), ({"LIBCUDA_LOG_LEVEL": "1"}, False),
    ({"LIBCUDA_LOG_LEVEL": "2"}, True), ({"LIBCUDA_LOG_LEVEL": "4"}, True),
    ({"LIBCUDA_LOG_LEVEL": "x"}, False), ({"RATION_LOG": "error"}, False),
    ({"RATION_LOG": "warn"}, True), ({"RATION_LOG": "debug"}, True),
    ({"RATION_LOG": "error", "LIBCUDA_LOG_LEVEL": "4"}, False),
])
def test_log_levels(place, settings, says):
    """A refusal is a warning: said where that is asked for, on standard error, once."""
    done = place.run("linked", RATION_MEM="128m", err=None, **settings)
    assert done.lines[2] == "more 2"
    assert ("64 MiB refused" in done.err) == says == bool(done.err)


def test_refusals_do_not_flood(place):
    program = place.start("quota", "mix", 1, "alloc", RATION_MEM="128m", RATION_LOG="warn")
    for _ in range(4):
        program.await_word("look").go()
    done = program.await_word("end").go().end()
    assert 1 <= done.err.count("refused") <= 20


def refused_path(place, *texts):
    """A region that cannot be had: cuInit fails and the line has the path, the reason, the cure."""
    refused(place, str(place.settings["RATION_REGION"]), *texts, code=OPERATING_SYSTEM,
            RATION_MEM="512m")


def test_region_paths_that_are_none(place):
    folder = place.folder / "folder"
    folder.mkdir()
    place.settings["RATION_REGION"] = folder
    refused_path(place, "irectory")
    place.settings["RATION_REGION"] = place.folder / "no" / "such"
    refused_path(place, "its directory must exist")
    link = place.folder / "link"
    link.symlink_to(place.folder / "aim")
    place.settings["RATION_REGION"] = link
    refused_path(place, "a symbolic link is not followed")
    assert not (place.folder / "aim").exists()
    os.mkfifo(place.folder / "fifo")
    place.settings["RATION_REGION"] = place.folder / "fifo"
    refused_path(place, "not a regular file")
    place.settings["RATION_REGION"] = "/dev/null"
    refused_path(place, "not a regular file")


# field fault 76: a file of another version or with other contents
@pytest.mark.parametrize("content", [b"something else\n", b"\1" * 3000000, b"PK\3\4" + b"\0" * 4096],
                         ids=["text", "large", "archive"])
def test_a_region_path_that_holds_something_else(place, content):
    """It is left as it is."""
    place.region.write_bytes(content)
    place.settings["RATION_REGION"] = place.region
    refused_path(place, "is not a region")
    assert place.region.read_bytes() == content


def test_files_of_former_versions_are_set_up_anew(place):
    """Nobody lives in them: short by one byte, another layout, HAMi-core's, zero length."""
    place.settings["RATION_MEM"] = "256m"
    place.run("linked", err=None)
    whole = place.region.read_bytes()
    other_layout = bytearray(whole)
    other_layout[OWN + 8] ^= 0xff
    hami = whole[:2008953]
    for content in (whole[:-1], bytes(other_layout), hami, b"", b"\0" * len(whole)):
        place.region.write_bytes(content)
        program = place.start("quota", "exact", "alloc", 2 * MIB).await_word("full")
        assert place.charged() == 256 * MIB and place.limit() == 256 * MIB
        assert program.go().await_word("empty").go().end().values["pieces"] == 96
        assert place.region.stat().st_size == len(whole)


def test_a_living_tenant_keeps_its_limits(place):
    """field faults 110 and 138: the environment of a later process changes nothing."""
    first = place.start("quota", "hold", 10, RATION_MEM="256m").await_word("held")
    for settings in ({"RATION_MEM": "100g"}, {"RATION_MEM": None}):
        values = place.start("views", "all", 1, **settings).await_word("said").go().end().values
        assert values["info.total"] == 256 * MIB
    first.go().end()
    # Nor does a process without any, when the tenant starts again.
    values = place.start("views", "all", 1).await_word("said").go().end().values
    assert values["info.total"] == 256 * MIB


def test_a_read_only_folder(open_place):
    needs(is_root(), "only root can start programs as others")
    place = open_place
    folder = place.folder / "closed"
    folder.mkdir(mode=0o755)
    place.settings.update(RATION_REGION=folder / "region", RATION_MEM="512m")
    done = place.run("setpriv", "--reuid=1234", "--clear-groups", PROGRAMS / "context", "untouched",
                     status=1, err=None)
    assert f"region {folder / 'region'} cannot be opened (Permission denied)" in done.err
    assert "its directory must be writable" in done.err
    (folder / "region").write_bytes(b"")
    (folder / "region").chmod(0o600)
    done = place.run("setpriv", "--reuid=1234", "--clear-groups", PROGRAMS / "context", "untouched",
                     status=1, err=None)
    assert "it belongs to uid 0 and we are uid 1234" in done.err


def test_a_full_disk(place):
    """On a file system with no room: said, and the file is no half region."""
    needs(is_root() and subprocess.run(["unshare", "-m", "true"], check=False,
                                       capture_output=True).returncode == 0,
          "mounting is not allowed here")
    place.settings.update(RATION_REGION=place.folder / "disk" / "region", RATION_MEM="512m")
    (place.folder / "disk").mkdir()
    script = (f"mount -t tmpfs -o size=64k none {place.folder}/disk && "
              f"{PROGRAMS}/context untouched; stat -c %s {place.folder}/disk/region")
    done = place.run("unshare", "-m", "/bin/sh", "-c", script, err=None)
    assert "iB of space (No space left on device)" in done.err
    assert done.lines[-1] == "0"


@pytest.mark.plain
def test_overlayfs(place):
    """A mapping does not keep a lock there: the slot's lock is kept by a descriptor."""
    script = (f"mount -t tmpfs none {place.folder}/base && cd {place.folder}/base && "
              "mkdir lower upper work merged && "
              "mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged && "
              f"export RATION_REGION={place.folder}/base/merged/region && "
              f"{PROGRAMS}/process race 4 2 64 && {PROGRAMS}/quota use && "
              f"RATION_MEM={2 * CONTEXT + 120 * MIB} {PROGRAMS}/process spawn {PROGRAMS}/process")
    (place.folder / "base").mkdir()
    done = subprocess.run(["unshare", "-m", "/bin/sh", "-c", script], capture_output=True, text=True,
                          env=place.environment(RATION_MEM=4 * CONTEXT + 128 * MIB), check=False)
    needs("mount:" not in done.stderr and "unshare" not in done.stderr, done.stderr)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "got 2"


def test_hami_s_region_path_by_pod(place):
    """POD_UID and CONTAINER_NAME name it where no path is given."""
    mount = place.folder / "vgpu"
    (mount / "containers").mkdir(parents=True)
    place.settings.update(RATION_REGION=None, POD_UID="1234", CONTAINER_NAME="main",
                          CONTAINER_VGPU_MOUNT=mount, CUDA_DEVICE_MEMORY_LIMIT="128m")
    assert place.run("linked").lines[2] == "more 2"
    region = mount / "containers" / "1234_main" / "usage.cache"
    assert region.stat().st_mode & 0o777 == 0o666
    assert region.read_bytes()[HAMI_LIMIT:HAMI_LIMIT + 8] == (128 * MIB).to_bytes(8, "little")
    assert [item.name for item in region.parent.iterdir()] == ["usage.cache"]


def run_by_default(place, prepare, *argv, status=0, **settings):
    """A program that nobody names a region for, after `prepare` in a /tmp that is its own."""
    script = ("mount -t tmpfs none /mnt && mkdir /mnt/up /mnt/work && "
              "mount -t overlay -o lowerdir=/tmp,upperdir=/mnt/up,workdir=/mnt/work none /tmp && "
              f"rm -f /tmp/cudevshr.cache && {prepare} && exec \"$@\"")
    place.settings["RATION_REGION"] = None
    done = place.run("unshare", "-m", "/bin/sh", "-c", script, "sh", *argv, status=None, err=None,
                     **settings)
    needs("mount:" not in done.err and "unshare" not in done.err, done.err)
    assert done.status == status, (done.status, done.out, done.err)
    return done


OTHER_USER = ["setpriv", "--reuid=1234", "--clear-groups"]


def test_a_default_region_that_may_hold_a_limit(place):
    """Nothing is configured, but what an earlier process was given may stand in the file."""
    program = PROGRAMS / "context"
    place.run("linked", err=None, RATION_MEM="256m")
    other_layout = bytearray(place.region.read_bytes())
    other_layout[OWN + 8] ^= 0xff
    image = place.folder / "image"
    image.write_bytes(other_layout)
    done = run_by_default(place, f"cp {image} /tmp/cudevshr.cache", program, "untouched", status=1)
    assert "which may hold a limit; start it once with a limit, or remove it" in done.err
    assert f"cuInit(0): {OPERATING_SYSTEM}, not 0" in done.err
    done = run_by_default(place, f"install -m 600 {place.folder}/region /tmp/cudevshr.cache",
                          *OTHER_USER, program, "untouched", status=1)
    assert "it belongs to uid 0 and we are uid 1234" in done.err
    assert f"cuInit(0): {OPERATING_SYSTEM}, not 0" in done.err


@pytest.mark.parametrize("folder", ["/usr/local/vgpu", "/tmp/vgpu"])
@pytest.mark.parametrize("settings", [{}, {"CUDA_DEVICE_MEMORY_LIMIT": "100g"}])
def test_a_login_has_its_container_s_limit(place, folder, settings):
    """field fault 110: its environment names no region, and the scheduler's is there."""
    place.run("linked", err=None, RATION_MEM="256m")
    prepare = f"mount -t tmpfs none /usr/local && mkdir {folder} && cp {place.folder}/region {folder}/0a1b.cache"
    done = run_by_default(place, prepare, PROGRAMS / "views", "nvml")
    assert done.values["nvml1.total"] == 256 * MIB
    # With a living one there, who names limits has not others.
    script = (f"{{ sleep 10 | env -u CUDA_DEVICE_MEMORY_LIMIT {PROGRAMS}/quota hold 10 >/mnt/held & }} 2>/dev/null && "
              "until grep -q held /mnt/held; do sleep 0.01; done")
    done = run_by_default(place, f"{prepare} && {script}", PROGRAMS / "views", "nvml", **settings)
    assert done.values["nvml1.total"] == 256 * MIB


@pytest.mark.parametrize("prepare", [
    "install -m 666 /etc/passwd /tmp/cudevshr.cache", "mkdir /tmp/cudevshr.cache",
    "mkfifo /tmp/cudevshr.cache", "ln -s /etc/passwd /tmp/cudevshr.cache", "chmod 755 /tmp",
    "install -m 600 /dev/null /tmp/cudevshr.cache",
], ids=["text", "folder", "fifo", "link", "closed", "empty"])
def test_a_default_region_that_holds_none(place, prepare):
    """Where there is no region and nothing is configured nobody set a limit: the program runs."""
    needs(is_root(), "only root can start programs as others")
    done = run_by_default(place, prepare, *OTHER_USER, PROGRAMS / "context", "untouched",
                          LIBCUDA_LOG_LEVEL="2")
    assert "no limit is set, so none is held" in done.err
