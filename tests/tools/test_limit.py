"""`ration limit`: the limits of a running tenant, shown and changed."""

import json
import os
import struct
import subprocess
import sys

import pytest
import region

GIB = 1 << 30
MIB = 1 << 20
SECOND = "GPU-fedcba98-7654-3210-fedc-ba9876543210"

# Does what it is told, a word a line: takes so many MiB and says the answer; says "free total" in
# MiB; waits until it gets so many MiB.
PROGRAM = """
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
print("ready", flush=True)
for line in sys.stdin:
    word, _, mib = line.strip().partition(" ")
    if word == "take":
        print(cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(int(mib) << 20)),
              flush=True)
    elif word == "info":
        assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
        print(free.value >> 20, total.value >> 20, flush=True)
    elif word == "await":
        print("waiting", flush=True)
        while cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(int(mib) << 20)):
            time.sleep(0.001)
        print("got", flush=True)
"""


@pytest.fixture
def place(ration):
    """A folder in which files stand as those of `ration run` do."""

    def make(image, name="train", lives=lambda path: region.alive(path, 0)):
        folder = ration.directory / f"{name}.tenant"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / (f"{len(list(folder.iterdir())):032x}" + ".region")
        path.write_bytes(image)
        if lives:
            locks.append(lives(path))
        return path

    locks = []
    yield make
    for lock in locks:
        os.close(lock.fd)


def two_devices(name="train", spec="0:1g,1:2g", limits=(GIB, 2 * GIB), used=(300 * MIB, 0),
                sm_spec="", sm_limits=(100, 100), **sm):
    image = region.blank(name, spec, "RATION_MEM", sm_spec, "RATION_SM" if sm_spec else "", **sm)
    region.add_device(image, 0, region.UUID, limits[0], 8 * GIB, sm_limits[0])
    region.add_device(image, 1, SECOND, limits[1], 8 * GIB, sm_limits[1])
    region.add_process(image, 0, os.getpid(), "python3", used)
    return image


def words(path, at, fmt):
    with open(path, "rb") as f:
        f.seek(at)
        return struct.unpack("<" + fmt, f.read(struct.calcsize("<" + fmt)))


def limits(path):
    return list(words(path, 1600, "QQ"))


def sm_limits(path):
    return list(words(path, 1728, "QQ"))


def sm_spec(path):
    text, source, policy = words(path, region.SM_SPEC_AT, "2048s128sI")
    return text.rstrip(b"\0").decode(), source.rstrip(b"\0").decode(), policy


def spec(path):
    text, source = words(path, region.RATION_AT + 112, "2048s128s")
    return text.rstrip(b"\0").decode(), source.rstrip(b"\0").decode()


def change(path):
    return words(path, region.RATION_AT + 2292, "I")[0]


def memory_of(out):
    return "".join(f"{line}\n" for line in out.stdout.splitlines() if "GPU time" not in line)


def time_of(out):
    return [line.partition("GPU time ")[2] for line in out.stdout.splitlines() if "GPU time" in line]


def refused(ration, path, says, *options):
    """The options are refused with these words, and the file stays as it is."""
    before = path.read_bytes()
    out = ration("limit", "train", *options)
    assert (out.returncode, out.stdout) == (2, "")
    assert says in out.stderr
    assert path.read_bytes() == before


def test_it_shows_what_is_in_force(ration, place):
    path = place(two_devices(sm_spec="0:30", sm_limits=(30, 100)))
    for who in ("train", path):
        out = ration("limit", who)
        assert (out.returncode, out.stderr) == (0, "")
        assert out.stdout == ("0 GPU-01234567: 1 GiB, from RATION_MEM (0:1g,1:2g)\n"
                              "0 GPU-01234567: GPU time 30 %, from RATION_SM (0:30)\n"
                              "1 GPU-fedcba98: 2 GiB, from RATION_MEM (0:1g,1:2g)\n"
                              "1 GPU-fedcba98: GPU time none\n")


def test_it_shows_what_was_written_into_the_file(ration, place):
    """A monitor changes the word; a word that was cleared leads to what is configured."""
    place(two_devices(limits=(3 * GIB, 0)))
    assert memory_of(ration("limit", "train")) == (
        "0 GPU-01234567: 3 GiB, written into its file; RATION_MEM said 1 GiB\n"
        "1 GPU-fedcba98: 2 GiB, from RATION_MEM (0:1g,1:2g)\n")
    place(two_devices("free", "", (0, GIB)), "free")
    assert memory_of(ration("limit", "free")) == (
        "0 GPU-01234567: none\n"
        "1 GPU-fedcba98: 1 GiB, written into its file; it was started without a limit\n")


def test_it_changes_all(ration, place):
    path = place(two_devices())
    out = ration("limit", "train", "--mem", "4g")
    assert (out.returncode, out.stderr) == (0, "")
    assert out.stdout == "0 GPU-01234567: 1 GiB -> 4 GiB\n1 GPU-fedcba98: 2 GiB -> 4 GiB\n"
    assert limits(path) == [4 * GIB, 4 * GIB]
    assert spec(path) == ("4g", "ration limit")
    assert ration("limit", "train").stdout.splitlines()[0] == (
        "0 GPU-01234567: 4 GiB, from ration limit (4g)")
    seen = next(t for t in json.loads(ration("ps", "--json").stdout)["tenants"]
                if t["path"] == str(path))
    assert (seen["limits"], seen["limits_from"]) == ("4g", "ration limit")


def test_readers_are_told_of_a_change(ration, place):
    """Its number is even, and another one than before."""
    path = place(two_devices())
    numbers = [change(path)]
    for size in ("4g", "5g"):
        ration("limit", "train", "--mem", size)
        numbers.append(change(path))
    assert numbers == [2, 4, 6]


def test_it_changes_each(ration, place):
    path = place(two_devices())
    out = ration("limit", "train", "--mem", "GPU-fedcba98:512m,0:1.5g")
    assert out.stdout == "0 GPU-01234567: 1 GiB -> 1.5 GiB\n1 GPU-fedcba98: 2 GiB -> 512 MiB\n"
    assert limits(path) == [1536 * MIB, 512 * MIB]


def test_it_limits_what_had_no_limit(ration, place):
    path = place(two_devices(spec="", limits=(0, 0)))
    out = ration("limit", "train", "-m", "1:1g")
    assert out.stdout == "0 GPU-01234567: none -> none\n1 GPU-fedcba98: none -> 1 GiB\n"
    assert limits(path) == [0, GIB]


def test_devices_beyond_those_of_hami(ration, place):
    """Their limits stand in our part of the file."""
    image = region.blank("train", "1g")
    for d in range(20):
        uuid = f"GPU-{d:08x}-89ab-cdef-0123-456789abcdef"
        if d < 16:
            region.add_device(image, d, uuid, GIB)
        else:
            region.put(image, region.DEVICES_AT + 128 * d, "48s", uuid.encode())
            region.put(image, region.DEVICES_AT + 128 * d + 64, "Q", GIB)
            region.put(image, region.RATION_AT + 24, "I", d + 1)
    path = place(image)
    assert ration("limit", "train", "--mem", "2g,19:3g").returncode == 0
    at = region.DEVICES_AT + 64
    assert [words(path, at + 128 * d, "Q")[0] >> 30 for d in range(16, 20)] == [2, 2, 2, 3]
    assert [words(path, 1600 + 8 * d, "Q")[0] >> 30 for d in range(16)] == [2] * 16


def test_it_says_when_more_is_in_use(ration, place):
    place(two_devices())
    out = ration("limit", "train", "--mem", "100m,1:16g")
    assert out.stdout == (
        "0 GPU-01234567: 1 GiB -> 100 MiB; 300 MiB are in use: nothing more is given until it is less\n"
        "1 GPU-fedcba98: 2 GiB -> 16 GiB; the card has 8 GiB, and those hold\n")


def test_before_a_device_is_used(ration, place):
    path = place(region.blank("train"), lives=region.kept)
    assert ration("limit", "train").stdout == ("no device is used yet: 1g, from RATION_MEM\n"
                                               "no device is used yet: GPU time no limit\n")
    assert ration("limit", "train", "--mem", "2g").stdout == "no device is used yet: 1g -> 2g\n"
    assert spec(path) == ("2g", "ration limit")


def test_gpu_time_that_was_written_into_the_file(ration, place):
    place(two_devices(sm_spec="30", sm_limits=(40, 0)))
    assert time_of(ration("limit", "train")) == ["40 %, written into its file; RATION_SM said 30 %",
                                                 "30 %, from RATION_SM (30)"]
    place(two_devices("free", sm_spec="", sm_limits=(40, 100)), "free")
    assert time_of(ration("limit", "free")) == [
        "40 %, written into its file; it was started without a limit", "none"]
    place(two_devices("lifted", sm_spec="30", sm_limits=(100, 30)), "lifted")
    assert time_of(ration("limit", "lifted"))[0] == "none, written into its file; RATION_SM said 30 %"


@pytest.mark.parametrize("policy, switch, says", [
    (region.POLICY_DISABLE, 1, "; switched off by its policy"),
    (region.POLICY_DEFAULT, 0, "; switched off by the monitor now"),
    (region.POLICY_DEFAULT, 1, ""), (region.POLICY_FORCE, 0, "")])
def test_gpu_time_that_does_not_hold(ration, place, policy, switch, says):
    image = two_devices(sm_spec="30", sm_limits=(30, 30), sm_policy=policy)
    region.put(image, 2008900, "i", switch)
    path = place(image)
    assert time_of(ration("limit", "train")) == ["30 %, from RATION_SM (30)" + says] * 2
    # One that is given here holds.
    assert ration("limit", "train", "--sm", "30").returncode == 0
    assert sm_spec(path) == ("30", "ration limit", region.POLICY_FORCE)
    assert time_of(ration("limit", "train")) == ["30 %, from ration limit (30)"] * 2


def test_it_changes_gpu_time(ration, place):
    path = place(two_devices(sm_spec="30", sm_limits=(30, 30)))
    before = spec(path), limits(path), change(path)
    out = ration("limit", "train", "--sm", "50,1:100")
    assert (out.returncode, out.stderr) == (0, "")
    assert out.stdout == ("0 GPU-01234567: GPU time 30 % -> 50 %\n"
                          "1 GPU-fedcba98: GPU time 30 % -> none\n")
    assert sm_limits(path) == [50, 100]
    assert sm_spec(path) == ("50,1:100", "ration limit", region.POLICY_FORCE)
    # What was not spoken of stays.
    assert (spec(path), limits(path), change(path)) == before


def test_it_changes_both_at_once(ration, place):
    path = place(two_devices())
    out = ration("limit", "train", "--mem", "3g", "--sm", "30")
    assert (out.returncode, out.stderr) == (0, "")
    assert out.stdout == ("0 GPU-01234567: 1 GiB -> 3 GiB\n1 GPU-fedcba98: 2 GiB -> 3 GiB\n"
                          "0 GPU-01234567: GPU time none -> 30 %\n"
                          "1 GPU-fedcba98: GPU time none -> 30 %\n")
    assert (limits(path), sm_limits(path)) == ([3 * GIB] * 2, [30, 30])
    # Neither, where one of them is wrong.
    for wrong in (["--mem", "4g", "--sm", "2:50,40"], ["--mem", "2:1g,1g", "--sm", "50"],
                  ["--mem", "4g", "--sm", "0:50"]):
        refused(ration, path, "--", *wrong)


def test_gpu_time_before_a_device_is_used(ration, place):
    path = place(region.blank("train", sm_spec="30", sm_source="RATION_SM"), lives=region.kept)
    assert time_of(ration("limit", "train")) == ["30, from RATION_SM"]
    assert ration("limit", "train", "--sm", "50").stdout == "no device is used yet: GPU time 30 -> 50\n"
    assert sm_spec(path)[0] == "50"


@pytest.mark.parametrize("sm,says", [
    ("0", "zero"), ("101", "too big"), ("-5", "negative"), ("abc", "abc"), ("30x", "30x"),
    ("", "--sm"), ("1:", "nothing behind the colon"), ("0:30,0:50", "given twice"), ("2:30", "no device '2'"),
    ("0:30", "lift the limit of device 1, now 50 %; give it one too, 100 for none")])
def test_wrong_limits_of_gpu_time_change_nothing(ration, place, sm, says):
    path = place(two_devices(sm_spec="0:50,1:50", sm_limits=(50, 50)))
    refused(ration, path, says, "--sm", sm)


def test_a_change_of_gpu_time_that_was_cut_off(ration, place):
    image = two_devices(sm_spec="50", sm_limits=(50, 50))
    region.put(image, region.SM_SPEC_AT, "8s", b"\1")
    region.put(image, region.SM_CHANGE_AT, "I", 7)
    path = place(image)
    assert ration("limit", "train", "--sm", "30").returncode == 0
    assert (sm_limits(path), sm_spec(path)[0]) == ([30, 30], "30")
    assert words(path, region.SM_CHANGE_AT, "I")[0] == 8


@pytest.mark.parametrize("mem,says", [
    ("0", "zero"), ("0:0", "zero"), ("", "--mem"), ("4x", "4x"), ("-1", "-1"),
    ("2:1g", "no device '2'; it has 0 (GPU-01234567-89ab-cdef-0123-456789abcdef), 1 (GPU-fedcba98"),
    ("1g,GPU-abcdabcd:1g", "no device 'GPU-abcdabcd'"),
    ("0:1g,0:2g", "given twice"),
    ("0:1g", "lift the limit of device 1, now 2 GiB"),
])
def test_wrong_limits_change_nothing(ration, place, mem, says):
    path = place(two_devices())
    refused(ration, path, says, "--mem", mem)


def test_the_general_limit_goes_on_to_hold_for_others(ration, place):
    """Devices may turn up that nobody has used yet."""
    path = place(two_devices(spec="1:512m,10g", limits=(10 * GIB, GIB), sm_spec="50%", sm_limits=(50, 50)))
    out = ration("limit", "train", "--mem", "0:3g,1:4g", "--sm", "0:30,GPU-fedcba98:40")
    assert (out.returncode, out.stderr) == (0, "")
    assert out.stdout == ("0 GPU-01234567: 10 GiB -> 3 GiB\n1 GPU-fedcba98: 1 GiB -> 4 GiB\n"
                          "all other devices: 10 GiB, as before\n"
                          "0 GPU-01234567: GPU time 50 % -> 30 %\n1 GPU-fedcba98: GPU time 50 % -> 40 %\n"
                          "all other devices: GPU time 50 %, as before\n")
    assert (limits(path), sm_limits(path)) == ([3 * GIB, 4 * GIB], [30, 40])
    assert (spec(path)[0], sm_spec(path)[0]) == ("0:3g,1:4g,10g", "0:30,GPU-fedcba98:40,50%")
    # Again, and then with a new one for all.
    assert ration("limit", "train", "--mem", "0:2g,1:2g").returncode == 0
    assert spec(path)[0] == "0:2g,1:2g,10g"
    assert "as before" not in ration("limit", "train", "--mem", "0:2g,5g").stdout
    assert (spec(path)[0], limits(path)) == ("0:2g,5g", [2 * GIB, 5 * GIB])


def test_the_general_limit_holds_before_a_device_is_used(ration, place):
    path = place(region.blank("train", "10g"), lives=region.kept)
    assert ration("limit", "train", "--mem", "0:3g").stdout == "no device is used yet: 10g -> 0:3g,10g\n"
    assert spec(path)[0] == "0:3g,10g"


def test_a_limit_of_a_device_that_is_not_used_yet_is_not_lifted(ration, place):
    path = place(two_devices(spec="0:1g,1:2g,2:3g"))
    refused(ration, path, "lift the limit of device 2, now 3 GiB", "--mem", "0:1g,1:1g")
    assert ration("limit", "train", "--mem", "0:1g,1:1g,2:3g").returncode == 0
    assert spec(path)[0] == "0:1g,1:1g,2:3g"
    path = place(region.blank("idle", "0:1g,1:2g"), "idle", lives=region.kept)
    assert "lift the limit of device 1" in ration("limit", "idle", "--mem", "0:1g").stderr


def test_limits_that_do_not_fit_with_the_general_one(ration, place):
    path = place(region.blank("train", "10g"), lives=region.kept)
    many = ",".join(f"GPU-{i:08x}-0000-0000-0000-{i:012x}:1g" for i in range(46))
    many += "," + "GPU-".ljust(2047 - len(many) - 4, "f") + ":1g"
    assert len(many) == 2047
    refused(ration, path, "too many limits", "--mem", many)


def test_the_directory_of_a_tenant(ration, place):
    path = place(two_devices())
    for name in (path.parent, f"{path.parent}/"):
        out = ration("limit", name, "--mem", "3g")
        assert (out.returncode, out.stderr) == (0, "")
    assert limits(path) == [3 * GIB] * 2


def test_a_file_of_another_layout(ration, place):
    image = two_devices()
    region.put(image, region.RATION_AT, "QI", region.RATION_MAGIC, 1)
    path = place(image)
    for options in ([], ["--mem", "1g"]):
        out = ration("limit", path, *options)
        assert (out.returncode, out.stdout) == (1, "")
        assert f"was made by another version of Ration (layout 1, this is {region.LAYOUT})" in out.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_tenants_of_others(ration, place, open_copy, tmp_path):
    place(two_devices())
    env = {"RATION_DIR": str(tmp_path / "none")}
    script = 'mount -t tmpfs none /run && exec setpriv --reuid=65534 --clear-groups /proc/self/fd/$1 limit train'
    with open(open_copy, "rb") as binary:
        fd = binary.fileno()
        out = subprocess.run(["unshare", "-m", "sh", "-c", f"mount -t tmpfs none /tmp && {script}", "sh", str(fd)],
                             env={**ration.env, **env}, text=True, pass_fds=(fd,), capture_output=True, check=False)
    if "unshare" in out.stderr or "mount:" in out.stderr:
        pytest.skip("no mounts here")
    assert out.returncode == 1
    assert "no tenant 'train' here; there is none that you may see" in out.stderr


def test_names_that_fit_none(ration, place):
    place(two_devices("train"), "train")
    place(two_devices("serve"), "serve")
    place(two_devices("ended"), "ended", lives=None)
    for who in ("trai", "ended", ""):
        out = ration("limit", who, "--mem", "1g")
        assert (out.returncode, out.stdout) == (1, "")
        assert f"no tenant '{who}'" in out.stderr
        assert "train" in out.stderr and "serve" in out.stderr


def test_names_that_fit_two(ration, place):
    paths = [place(two_devices("train")), place(two_devices("train"))]
    out = ration("limit", "train", "--mem", "3g")
    assert (out.returncode, out.stdout) == (1, "")
    assert all(str(path) in out.stderr for path in paths)
    assert ration("limit", paths[1], "--mem", "3g").returncode == 0
    assert [limits(path)[0] for path in paths] == [GIB, 3 * GIB]


def test_paths_that_lead_to_no_tenant(ration, place, tmp_path):
    (tmp_path / "other").write_text("hello")
    (tmp_path / "empty").write_text("")
    link = tmp_path / "link"
    link.symlink_to(place(two_devices()))
    for path in (tmp_path / "none", tmp_path, tmp_path / "other", tmp_path / "empty", link):
        for options in ([], ["--mem", "1g"]):
            out = ration("limit", path, *options)
            assert (out.returncode, out.stdout) == (1, "")
            assert str(path) in out.stderr
    assert (tmp_path / "other").read_text() == "hello"


def test_a_tenant_that_has_ended(ration, place):
    path = place(two_devices(), lives=None)
    before = path.read_bytes()
    out = ration("limit", path, "--mem", "3g")
    assert out.returncode == 1 and "has ended" in out.stderr
    assert path.read_bytes() == before


def test_a_file_of_another_library(ration, place):
    path = place(two_devices()[:region.HAMI_BYTES])
    before = path.read_bytes()
    out = ration("limit", path, "--mem", "3g")
    assert out.returncode == 1 and "another library" in out.stderr
    assert path.read_bytes() == before


def test_a_short_file(ration, place):
    path = place(two_devices()[:region.FILE_BYTES - 1])
    assert ration("limit", path, "--mem", "3g").returncode == 1


def test_a_file_that_others_keep_locked(ration, place):
    path = place(two_devices())
    with region.Lock(path, 0, region.HAMI_BYTES):
        out = ration("limit", "train", "--mem", "3g")
    assert out.returncode == 1 and "locked" in out.stderr
    assert limits(path) == [GIB, 2 * GIB]
    assert ration("limit", "train", "--mem", "3g").returncode == 0


def test_a_change_that_was_cut_off(ration, place):
    """Killed in the midst of it; the next one puts it right."""
    image = two_devices()
    region.put(image, region.RATION_AT + 112, "8s", b"\1")
    region.put(image, region.RATION_AT + 2292, "I", 7)
    path = place(image)
    assert ration("limit", "train", "--mem", "3g").returncode == 0
    assert (limits(path), spec(path)[0], change(path)) == ([3 * GIB] * 2, "3g", 8)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_who_may_not_write(ration, place, open_copy):
    path = place(two_devices())
    path.chmod(0o644)
    for part in (path.parent, *path.parents):
        if part.stat().st_uid == 0 and str(part).startswith("/tmp/"):
            part.chmod(part.stat().st_mode | 0o055)
    out = subprocess.run([open_copy, "limit", str(path), "--mem", "3g"], capture_output=True,
                         text=True, user=65534, check=False)
    assert out.returncode == 1
    assert "belongs to uid 0 and uid 65534 may not write it" in out.stderr
    assert limits(path) == [GIB, 2 * GIB]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
@pytest.mark.parametrize("command", [["limit"], ["limit", "--mem", "3g"], ["suspend"]])
def test_the_directory_of_another_user(ration, place, open_copy, command):
    path = place(two_devices())
    path.parent.chmod(0o711)
    for part in path.parent.parents:
        if part.stat().st_uid == 0 and str(part).startswith("/tmp/"):
            part.chmod(part.stat().st_mode | 0o055)
    out = subprocess.run([open_copy, *command, str(path.parent)], capture_output=True, text=True, user=65534,
                         group=65534, extra_groups=[], check=False)
    assert out.returncode == 1
    assert out.stderr == (f"ration {command[0]}: {path.parent}: the directory belongs to uid 0 and uid 65534 may "
                          "not read it\n")
    assert limits(path) == [GIB, 2 * GIB]


@pytest.mark.parametrize("command", [["limit"], ["limit", "--mem", "3g"], ["suspend"]])
def test_a_directory_that_is_no_tenant_s(ration, tmp_path, command):
    out = ration(*command, f"{tmp_path}/")
    assert out.returncode == 1
    assert out.stderr == f"ration {command[0]}: {tmp_path}/: holds no tenant\n"


@pytest.mark.parametrize("options,says", [
    ([], "tenant is missing"), (["a", "b"], "'b'"), (["a", "2g"], "did you mean --mem 2g?"),
    (["a", "30%"], "did you mean --sm 30%?"), (["a", "30"], "did you mean --mem 30g or --sm 30?"), (["a", "--mem", "1g", "--mem", "2g"], "twice"),
    (["a", "--sm", "30", "--sm", "40"], "twice")])
def test_wrong_command_lines(ration, options, says):
    out = ration("limit", *options)
    assert (out.returncode, out.stdout) == (2, "")
    assert says in out.stderr


class Program:
    """A program in a tenant that does what it is told."""

    def __init__(self, ration, *options):
        self.process = ration.start("run", "--sim=mem=8g,context=64m", *options, sys.executable, "-c",
                                    PROGRAM, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.hear() == "ready"

    def hear(self):
        return self.process.stdout.readline().strip()

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.hear()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0


def test_a_running_program_feels_it(ration, sim):
    program = Program(ration, "--mem", "1g", "--name", "a")
    assert program.tell("take 800") == "0"
    assert program.tell("take 800") == "2"
    # Below the use: nothing more, and nothing of what is held goes.
    assert "864 MiB are in use" in ration("limit", "a", "--mem", "512m").stdout
    assert program.tell("take 1") == "2"
    assert program.tell("info") == "0 512"
    # A program that waits goes on when there is room.
    assert program.tell("await 800") == "waiting"
    assert ration("limit", "a", "--mem", "2g").stdout.endswith("512 MiB -> 2 GiB\n")
    assert program.hear() == "got"
    assert program.tell("info") == f"{2048 - 64 - 1600} 2048"
    program.end()


def test_programs_that_join_later(ration, sim, place):
    """They come under the changed limit."""
    script = f"{sys.executable} -c '{PROGRAM}'"
    process = ration.start("run", "--sim=mem=8g,context=64m", "--mem", "1g", "--name", "a", "sh", "-c",
                           f"read go; exec {script}", stdin=subprocess.PIPE,
                           stderr=subprocess.DEVNULL)
    try:
        for _ in range(3000):
            out = ration("limit", "a", "--mem", "2g")
            if out.returncode == 0:
                break
        assert out.stdout == "no device is used yet: 1g -> 2g\n"
        process.stdin.write("go\ninfo\n")
        process.stdin.close()
        assert process.stdout.read().split() == ["ready", "1984", "2048"]
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
