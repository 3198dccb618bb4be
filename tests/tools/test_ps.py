"""`ration ps`: what is in the files, whoever wrote them."""

import json
import os
import random
import subprocess
import time

import pytest
import region

GIB = 1 << 30
MIB = 1 << 20


@pytest.fixture
def tenants(ration):
    """The tenants of this test, from the JSON: other ones of the machine do not count."""

    def read(*options):
        out = ration("ps", "--json", *options)
        assert out.returncode == 0
        return {os.path.basename(os.path.dirname(t["path"])).removesuffix(".tenant"): t
                for t in json.loads(out.stdout)["tenants"]
                if t["path"].startswith(str(ration.directory))}

    read.place = ration.place
    return read


def two_devices():
    image = region.blank("train", "0:1g,1:2g", "RATION_MEM", "0:30", "RATION_SM")
    region.add_device(image, 0, region.UUID, GIB, 8 * GIB, sm_limit=30)
    region.add_device(image, 1, "GPU-fedcba98-7654-3210-fedc-ba9876543210", 2 * GIB, 8 * GIB)
    region.add_process(image, 0, 100, "python3", [300 * MIB, 0])
    region.add_process(image, 1, 200, "dead", [100 * MIB, 100 * MIB])
    region.add_process(image, 5, 300, "worker", [50 * MIB, 1 * GIB])
    return image


def test_values(tenants):
    path = tenants.place("a")
    path.write_bytes(two_devices())
    with region.alive(path, 0), region.alive(path, 5):
        tenant = tenants()["a"]
    assert tenant["name"] == "train"
    assert tenant["verified"] is True
    assert tenant["limits"] == "0:1g,1:2g"
    assert tenant["limits_from"] == "RATION_MEM"
    assert (tenant["sm_limits"], tenant["sm_limits_from"]) == ("0:30", "RATION_SM")
    assert tenant["sm_policy"] == "force"
    assert tenant["created_s"] == 1700000000
    assert tenant["devices"] == [
        {"index": 0, "uuid": region.UUID, "limit_bytes": GIB, "used_bytes": 350 * MIB,
         "free_bytes": 674 * MIB, "physical_bytes": 8 * GIB, "sm_limit_pct": 30,
         "sm_limit_in_force": True, "busy_pct": None},
        {"index": 1, "uuid": "GPU-fedcba98-7654-3210-fedc-ba9876543210", "limit_bytes": 2 * GIB,
         "used_bytes": GIB, "free_bytes": GIB, "physical_bytes": 8 * GIB, "sm_limit_pct": None,
         "sm_limit_in_force": False, "busy_pct": None},
    ]
    assert [(p["pid"], p["slot"], p["command"], [d["used_bytes"] for d in p["devices"]])
            for p in tenant["processes"]] == [(100, 0, "python3", [300 * MIB, 0]),
                                              (300, 5, "worker", [50 * MIB, GIB])]


def test_table(ration, tenants):
    path = tenants.place("a")
    path.write_bytes(two_devices())
    with region.alive(path, 0), region.alive(path, 5):
        lines = ration("ps").stdout.splitlines()
    assert lines[0].split() == ["TENANT", "DEVICE", "LIMIT", "USED", "FREE", "SM", "BUSY", "HELD",
                                "PROCESSES"]
    at = next(i for i, line in enumerate(lines) if line.startswith("train "))
    assert lines[at].split() == ["train", "0", "GPU-01234567", "1", "GiB", "350", "MiB", "674", "MiB",
                                 "30", "%", "2"]
    assert lines[at + 1].split() == ["1", "GPU-fedcba98", "2", "GiB", "1", "GiB", "1", "GiB", "none"]
    assert lines[at + 2].split() == ["100", "python3", "0", "GPU-01234567", "300", "MiB"]
    assert lines[at + 3].split() == ["300", "worker", "0", "GPU-01234567", "50", "MiB"]
    assert lines[at + 4].split() == ["1", "GPU-fedcba98", "1", "GiB"]


@pytest.mark.parametrize("age_s, busy", [(0, 25.0), (60, 0.0)])
def test_gpu_time_that_was_used(tenants, age_s, busy):
    """A share that a process wrote long ago says nothing of the last second."""
    image = region.blank()
    region.add_device(image, 0, region.UUID, GIB)
    region.add_process(image, 0, 100, "x", [300 * MIB])
    region.put(image, region.PACE_AT + 8, "q", 1)  # filled_ns
    slot = region.PACE_AT + 256 + 2112 * 8
    now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - age_s * 10**9
    region.put(image, slot + 24, "QQQQ", 2_500_000_000, now_ns, 0, 250_000_000)
    path = tenants.place("a")
    path.write_bytes(image)
    with region.alive(path, 0):
        tenant = tenants()["a"]
    use = tenant["processes"][0]["devices"][0]
    assert (use["busy_pct"], use["held_s"], tenant["devices"][0]["busy_pct"]) == (busy, 2.5, 0.0)


# field fault 174: nobody saw what of a process was in host memory
def test_what_lies_in_host_memory(tenants):
    image = two_devices()
    region.put(image, region.FLAGS_AT, "I", region.MOVABLE)
    region.set_residency(image, 0, 40 * MIB, 200 * MIB, 0)
    region.set_residency(image, 5, 0, 3 * MIB, 0)
    path = tenants.place("a")
    path.write_bytes(image)
    with region.alive(path, 0), region.alive(path, 5):
        processes = tenants()["a"]["processes"]
    assert [(p["host_bytes"], p["devices"][0]["movable_bytes"]) for p in processes] == [
        (200 * MIB, 40 * MIB), (3 * MIB, 0)]


def test_an_operation_that_did_not_take_place_does_not_count(tenants):
    image = region.blank()
    region.add_device(image, 0, region.UUID, GIB)
    region.add_process(image, 0, 100, "x", [300 * MIB])
    # Announced (number 2, to 400 MiB) and killed before the account took it.
    entry = region.SLOTS_AT + 64 + 8 * 32
    region.put(image, entry, "QQQQ", 2, 1, 400 * MIB, 300 * MIB)
    path = tenants.place("a")
    path.write_bytes(image)
    with region.alive(path, 0):
        assert tenants()["a"]["devices"][0]["used_bytes"] == 300 * MIB
        region.put(image, region.ACCOUNTS_AT, "QQ", 400 * MIB, 2)
        path.write_bytes(image)
        assert tenants()["a"]["devices"][0]["used_bytes"] == 400 * MIB


def one_process(pid):
    image = region.blank()
    region.add_device(image, 0, region.UUID, GIB)
    region.add_process(image, 2, pid, "x", [300 * MIB])
    region.put(image, region.RATION_AT + 2560 + 2, "B", 1)  # its hint: probably taken
    return image


def test_a_dead_owner_is_dead_though_a_child_keeps_its_lock(tenants, dead_pid):
    path = tenants.place("a")
    image = one_process(dead_pid)
    region.own(image, 2, dead_pid, start=1, by_descriptor=True)
    path.write_bytes(image)
    with region.alive(path, 2):
        assert tenants() == {}
        tenant = tenants("--all")["a"]
        assert (tenant["alive"], tenant["processes"]) == (False, [])
        assert tenant["devices"][0]["used_bytes"] == 0
        # Beside a living one, and under a `ration run`.
        with region.kept(path):
            assert tenants()["a"]["processes"] == []
        region.add_process(image, 1, os.getpid(), "y", [MIB])
        region.own(image, 1, os.getpid())
        path.write_bytes(image)
        with region.alive(path, 1):
            assert [p["slot"] for p in tenants()["a"]["processes"]] == [1]


def test_what_a_descriptor_holds_of_a_dead_process_s(tenants, dead_pid):
    """Other programs can make such locks too: no more is shown than it was charged for."""
    for size, used in ((64 * MIB, 64 * MIB), (2**40, 300 * MIB)):
        path = tenants.place("a")
        image = one_process(dead_pid)
        region.own(image, 2, dead_pid, start=1)
        descriptor = region.export(image, 2, size)
        path.write_bytes(image)
        tenant = tenants()["a"]
        assert (tenant["alive"], tenant["processes"]) == (True, [])
        assert tenant["devices"][0]["used_bytes"] == used
        os.close(descriptor)
        assert tenants() == {}


def test_a_number_that_another_process_has_by_now(tenants):
    path = tenants.place("a")
    image = one_process(os.getpid())
    region.own(image, 2, os.getpid(), start=1, by_descriptor=True)
    path.write_bytes(image)
    with region.alive(path, 2):
        assert tenants() == {}


def test_the_lock_decides_where_no_child_has_it_or_the_owner_cannot_be_looked_up(tenants, dead_pid):
    path = tenants.place("a")
    image = one_process(dead_pid)
    for namespace, start, by_descriptor in ((1, 1, True), (0, 1, True), (None, 1, False)):
        region.own(image, 2, dead_pid, start, by_descriptor, namespace)
        path.write_bytes(image)
        with region.alive(path, 2):
            assert tenants()["a"]["devices"][0]["used_bytes"] == 300 * MIB


def test_a_living_owner_that_lost_its_lock(tenants):
    """Where a descriptor holds the lock a program may close it."""
    path = tenants.place("a")
    image = one_process(os.getpid())
    region.own(image, 2, os.getpid(), by_descriptor=True)
    path.write_bytes(image)
    tenant = tenants()["a"]
    assert (tenant["alive"], len(tenant["processes"])) == (True, 1)
    region.own(image, 2, os.getpid(), by_descriptor=False)
    path.write_bytes(image)
    assert tenants() == {}


@pytest.mark.parametrize("size", [0, 1, 5000, region.FILE_BYTES])
def test_a_file_that_is_being_made(ration, tenants, size):
    path = tenants.place("a")
    path.write_bytes(bytes(size))
    with region.Lock(path, 0, region.HAMI_BYTES):
        out = ration("ps")
        assert str(path) not in out.stderr + out.stdout
    if size == region.FILE_BYTES:
        image = region.blank()
        region.put(image, 0, "i", 0)
        path.write_bytes(image)
        with region.Lock(path, 0, region.HAMI_BYTES), region.kept(path):
            out = ration("ps")
            assert str(path) not in out.stderr + out.stdout


def test_a_tenant_without_a_process_yet(ration, tenants):
    path = tenants.place("a")
    for spec, sm_spec, shown in (("3g", "30", ["3", "GiB", "30", "%"]), ("", "", ["none", "none"]),
                                 ("0:1536m,2g", "0:30,1:100", ["0:1.5", "GiB,2", "GiB", "0:30", "%,1:none"])):
        path.write_bytes(region.blank("idle", spec, sm_spec=sm_spec))
        with region.kept(path):
            tenant = tenants()["a"]
            assert (tenant["devices"], tenant["processes"]) == ([], [])
            (line,) = [line for line in ration("ps").stdout.splitlines() if line.startswith("idle ")]
            assert line.split() == ["idle", "-", *shown, "0"]


def test_dead_tenants_only_when_asked_for(ration, tenants):
    path = tenants.place("a")
    path.write_bytes(two_devices())
    tenant = tenants("--all")["a"]
    assert tenant["alive"] is False
    assert tenant["processes"] == []
    assert tenant["devices"][0]["used_bytes"] == 0
    assert "ended" in ration("ps", "--all").stdout
    assert tenants() == {}


LEFT = """
mount -t tmpfs -o mode=1777 none /tmp && mount -t tmpfs none /run || exit 77
cat >/run/living
fd=$1
leave() {
	mkdir -p "$1/x.tenant" && cp /run/living "$1/x.tenant/0123456789abcdef0123456789abcdef.region"
	chown -R "$2" "$1"
}
# Another user's, in the layout of another version; one that is no user's; ours, which goes.
leave /tmp/ration-1234 1234
printf '\\001' | dd of=/tmp/ration-1234/x.tenant/0123456789abcdef0123456789abcdef.region bs=1 seek=2011144 \
	conv=notrunc 2>/run/log
leave /tmp/ration-preload-x 0
leave /tmp/ration-1235 0
leave /tmp/ration-0 0
chmod 700 /tmp/ration-0
/proc/self/fd/$fd ps
echo "--"
ls /tmp
/proc/self/fd/$fd ps --all
echo "--"
# A directory that was named is what it is.
RATION_DIR=/tmp/ration-preload-x /proc/self/fd/$fd ps --all --json 2>/run/log | grep -c /tmp/ration-preload-x
"""


def test_what_is_left_in_tmp(ration):
    """No line of it, and nothing said of it; what no `ration run` has made is nobody's tenant."""
    if os.geteuid() != 0:
        pytest.skip("needs root for a mount namespace")
    env = {k: v for k, v in ration.env.items() if k not in ("RATION_DIR", "XDG_RUNTIME_DIR")}
    with open(ration.path, "rb") as binary:
        fd = binary.fileno()
        out = subprocess.run(["unshare", "-m", "sh", "-c", LEFT, "sh", str(fd)], env=env, pass_fds=(fd,),
                             input=bytes(two_devices()), capture_output=True, timeout=60, check=False)
    if out.returncode == 77 or b"unshare" in out.stderr:
        pytest.skip("no mounts here")
    shown, left, named = out.stdout.decode().split("--\n", 2)
    assert named == "1\n"
    assert shown == "no tenants\n"
    assert left.split() == ["ration-0", "ration-1234", "ration-1235", "ration-preload-x", "no", "tenants"]
    # The other version's is named where all is asked for, and only there.
    assert out.stderr.decode().count("\n") == 1 and b"/tmp/ration-1234/x.tenant" in out.stderr


def test_used_above_the_limit_leaves_nothing_free(tenants):
    image = region.blank()
    region.add_device(image, 0, region.UUID, GIB)
    region.add_process(image, 0, 1, "x", [3 * GIB])
    path = tenants.place("a")
    path.write_bytes(image)
    with region.alive(path, 0):
        assert tenants()["a"]["devices"][0]["free_bytes"] == 0


@pytest.mark.parametrize("limit, physical, free", [(0, 8 * GIB, 7 * GIB), (16 * GIB, 8 * GIB, 7 * GIB),
                                                   (0, 0, None), (2 * GIB, 0, GIB)])
def test_free_is_what_an_allocation_can_get(tenants, limit, physical, free):
    image = region.blank(spec="")
    region.add_device(image, 0, region.UUID, limit, physical)
    region.add_process(image, 0, 1, "x", [GIB])
    path = tenants.place("a")
    path.write_bytes(image)
    with region.alive(path, 0):
        device = tenants()["a"]["devices"][0]
    assert device["free_bytes"] == free
    assert device["limit_bytes"] == (limit or None)


def test_a_word_of_memory_that_was_cleared(ration, tenants):
    """What is configured holds then, and every view says so."""
    image = region.blank(spec="1g,1:2g")
    region.add_device(image, 0, region.UUID, 0, 8 * GIB)
    region.add_device(image, 1, region.UUID[:-1] + "0", 0, 8 * GIB)
    region.add_process(image, 0, 1, "x", [GIB // 4, 0])
    path = tenants.place("a")
    path.write_bytes(image)
    with region.alive(path, 0):
        devices = tenants()["a"]["devices"]
        table = ration("ps").stdout
    assert [device["limit_bytes"] for device in devices] == [GIB, 2 * GIB]
    assert devices[0]["free_bytes"] == GIB * 3 // 4
    assert "1 GiB" in table and "2 GiB" in table and "none" not in table.splitlines()[1].split("GiB")[0]


@pytest.mark.parametrize("policy, name, switch, held", [
    (region.POLICY_FORCE, "force", 0, True), (region.POLICY_DISABLE, "disable", 1, False),
    (region.POLICY_DEFAULT, "default", 1, True), (region.POLICY_DEFAULT, "default", 0, False),
    (77, "force", 0, True)])
def test_a_limit_of_gpu_time_that_does_not_hold_now(ration, tenants, policy, name, switch, held):
    image = region.blank("t", "", sm_spec="30", sm_source="CUDA_DEVICE_SM_LIMIT", sm_policy=policy)
    region.add_device(image, 0, region.UUID, 0, sm_limit=30)
    region.put(image, 2008900, "i", switch)
    path = tenants.place("a")
    path.write_bytes(image)
    with region.kept(path):
        tenant = tenants()["a"]
        (line,) = [line for line in ration("ps").stdout.splitlines() if line.startswith("t ")]
    device = tenant["devices"][0]
    assert (device["sm_limit_pct"], device["sm_limit_in_force"]) == (30, held)
    assert tenant["sm_policy"] == name
    assert line.split()[-3:] == (["30", "%", "0"] if held else ["%", "off", "0"])


@pytest.mark.parametrize("word, shown", [(0, 30), (1, 1), (99, 99), (100, None), (2 ** 64 - 1, None)])
def test_a_word_of_gpu_time(tenants, word, shown):
    """A cleared one leads to what is configured; from 100 on it says that there is none."""
    image = region.blank(sm_spec="30")
    region.add_device(image, 0, region.UUID, GIB, sm_limit=word)
    path = tenants.place("a")
    path.write_bytes(image)
    with region.kept(path):
        assert tenants()["a"]["devices"][0]["sm_limit_pct"] == shown


def test_file_of_hami_core(ration, tenants, tmp_path):
    image = two_devices()[:region.HAMI_BYTES + 1]
    path = tmp_path / "usage.cache"
    path.write_bytes(image)
    env = {"CUDA_DEVICE_MEMORY_SHARED_CACHE": path}
    out = ration("ps", "--json", env=env)
    tenant = next(t for t in json.loads(out.stdout)["tenants"] if t["path"] == str(path))
    assert tenant["verified"] is False
    assert tenant["devices"][0]["used_bytes"] == 450 * MIB
    assert tenant["devices"][0]["sm_limit_pct"] == 30
    assert tenant["sm_policy"] is None
    assert [p["pid"] for p in tenant["processes"]] == [100, 200, 300]
    assert "3 unverified" in ration("ps", env=env).stdout


def test_a_file_by_two_names_is_one_tenant(ration, tenants):
    path = tenants.place("a")
    path.write_bytes(two_devices())
    with region.alive(path, 0):
        out = ration("ps", "--json", env={"RATION_REGION": path,
                                          "CUDA_DEVICE_MEMORY_SHARED_CACHE": path})
    assert sum(t["name"] == "train" for t in json.loads(out.stdout)["tenants"]) == 1


def test_names_cannot_write_to_the_terminal(ration, tenants):
    image = region.blank("\x1b[31mred\n", "1g\x07")
    region.add_device(image, 0, "GPU-\x1b\xff", GIB)
    region.add_process(image, 0, 1, "\x1b]0;x\x07", [0])
    path = tenants.place("a")
    path.write_bytes(image)
    with region.alive(path, 0):
        text = ration("ps").stdout
        assert "?[31mred?" in text
        assert all(c == "\n" or " " <= c <= "~" for c in text)
        assert tenants()["a"]["name"] == "?[31mred?"


@pytest.mark.parametrize("size", [1, 3, 4, 11, 4096, 1856, region.HAMI_BYTES - 1, region.RATION_AT + 7,
                                  region.RATION_AT + 8, region.RATION_AT + 16, region.SLOTS_AT,
                                  region.FILE_BYTES - 1])
def test_truncated_file(ration, tenants, size):
    path = tenants.place("a")
    path.write_bytes(two_devices()[:size])
    with region.alive(path, 0), region.kept(path):
        out = ration("ps", "--all")
    assert out.returncode == 0
    if size < region.HAMI_BYTES or size >= region.RATION_AT + 8:
        assert str(path) in out.stderr
        assert "train" not in out.stdout


def test_a_file_of_another_layout(ration, tenants):
    image = two_devices()
    region.put(image, region.RATION_AT, "QI", region.RATION_MAGIC, 1)
    path = tenants.place("a")
    path.write_bytes(image)
    said = f"ration ps: {path}: was made by another version of Ration (layout 1, this is {region.LAYOUT}); remove it if"
    with region.alive(path, 0):
        assert said in ration("ps").stderr
    script = ("mount -t tmpfs none /tmp && cat >/tmp/cudevshr.cache && fd=$1 && shift && "
              "exec /proc/self/fd/$fd ps \"$@\"")
    if os.geteuid() != 0:
        pytest.skip("needs root for a mount namespace")
    for options, says in (([], False), (["--all"], True)):
        with open(ration.path, "rb") as binary:
            fd = binary.fileno()
            out = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", str(fd), *options],
                                 env={**ration.env, "RATION_DIR": "/nonexistent"}, input=bytes(image),
                                 pass_fds=(fd,), capture_output=True, timeout=60, check=False)
        if b"unshare" in out.stderr or b"mount:" in out.stderr:
            pytest.skip("no mounts here")
        assert (b"cudevshr.cache: was made by another version" in out.stderr) == says


def test_garbage(ration, tenants):
    seed = random.Random(1)
    for i in range(12):
        image = two_devices()
        for _ in range(seed.choice([20, 2000])):
            at = seed.randrange(4, region.FILE_BYTES - 8)
            region.put(image, at, "Q", seed.getrandbits(64))
        # Counts, indices and the ledger, where garbage would hurt most.
        region.put(image, 56, "Q", seed.getrandbits(64))
        region.put(image, 2008896, "I", seed.getrandbits(32))
        region.put(image, region.RATION_AT, "QII", region.RATION_MAGIC, region.LAYOUT, region.FILE_BYTES)
        region.put(image, region.RATION_AT + 24, "I", seed.getrandbits(32))
        for field in range(64):
            region.put(image, region.ACCOUNTS_AT + 8 * field, "Q", seed.getrandbits(64))
        path = tenants.place(f"g{i}")
        path.write_bytes(image)
        region.put(image, 4, "I", 1)
        path.write_bytes(image)
        with region.alive(path, 0), region.alive(path, 1023), region.kept(path):
            table = ration("ps", "--all")
            assert table.returncode == 0
            tenant = tenants("--all")[f"g{i}"]
            assert len(tenant["devices"]) <= 32
            assert len(tenant["processes"]) <= 1024
        path.unlink()


def test_all_ones(ration, tenants):
    image = bytearray(b"\xff" * region.FILE_BYTES)
    region.put(image, 0, "iI", region.HAMI_MAGIC, 1)
    region.put(image, region.RATION_AT, "QII", region.RATION_MAGIC, region.LAYOUT, region.FILE_BYTES)
    path = tenants.place("a")
    path.write_bytes(image)
    region.put(image, 2008896, "i", 1024)
    path.write_bytes(image)
    with region.alive(path, 7):
        tenant = tenants()["a"]
    assert len(tenant["devices"]) == 32
    assert [p["slot"] for p in tenant["processes"]] == [7]
    assert tenant["processes"][0]["pid"] is None


@pytest.mark.parametrize("kind", ["directory", "fifo", "link", "text"])
def test_things_that_are_no_region(ration, tenants, tmp_path, kind):
    path = tenants.place("a")
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to("/dev/zero")
    else:
        path.write_text("text\n")
    out = ration("ps", "--all")
    assert out.returncode == 0
    assert str(path) in out.stderr and "no region" in out.stderr


def test_a_file_that_may_only_be_read(ration, tenants):
    path = tenants.place("a")
    path.write_bytes(two_devices())
    with region.alive(path, 0):
        path.chmod(0o444)
        assert tenants()["a"]["processes"][0]["pid"] == 100


def test_strange_names_of_directories(ration, tmp_path):
    strange = ration.directory = tmp_path / "a[b]*?\\c"
    path = ration.place("a")
    path.write_bytes(two_devices())
    with region.alive(path, 0):
        out = ration("ps", env={"RATION_DIR": strange})
    assert "train" in out.stdout


def test_no_tenants(ration):
    """In a view of the machine in which nothing can be found."""
    if os.geteuid() != 0:
        pytest.skip("needs root for a mount namespace")
    script = ("mount -t tmpfs none /tmp && mount -t tmpfs none /run && "
              "{ [ ! -d /usr/local/vgpu ] || mount -t tmpfs none /usr/local/vgpu; } && "
              "fd=$1 && shift && exec /proc/self/fd/$fd ps \"$@\"")
    env = {k: v for k, v in ration.env.items() if k not in ("RATION_DIR", "XDG_RUNTIME_DIR")}
    with open(ration.path, "rb") as binary:
        fd = binary.fileno()
        outs = [subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", str(fd), *args], env=env,
                               text=True, pass_fds=(fd,), capture_output=True, timeout=60,
                               check=False)
                for args in ([], ["--json"])]
    if "unshare" in outs[0].stderr or "mount:" in outs[0].stderr:
        pytest.skip("no mounts here")
    assert [o.returncode for o in outs] == [0, 0]
    assert outs[0].stdout == "no tenants\n"
    assert json.loads(outs[1].stdout) == {"tenants": []}
