"""`ration run`: the region file, from before the program to after it."""

import json
import os
import resource
import select
import signal
import stat
import subprocess
import sys

import conftest
import pytest
import region

HOLD = ("import fcntl, os, struct, sys, time\n"
        "fd = os.open(os.environ['RATION_REGION'], os.O_RDWR)\n"
        "fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 1 << 40, 1, 0))\n"
        "sys.stdin.read()\n")


def start_waiting(ration, name, *options, **kwargs):
    """A tenant whose program waits for its input to end."""
    process = ration.start("run", "--name", name, *options, "sh", "-c", "echo up; cat >/dev/null",
                           stdin=subprocess.PIPE, **kwargs)
    assert process.stdout.readline() == "up\n"
    return process


def limits_inside(ration, *options):
    """The limits that `ration ps` shows to a program of the tenant; others of the machine do not count."""
    out = ration("run", *options, ration.path, "ps", "--json")
    assert out.returncode == 0
    tenants = [t for t in json.loads(out.stdout)["tenants"]
               if t["path"].startswith(str(ration.directory))]
    assert len(tenants) == 1
    return tenants[0]["limits"]


def end(process):
    process.stdin.close()
    assert process.wait(30) == 0


def test_file_goes_with_the_program(ration):
    process = start_waiting(ration, "a")
    assert ration.region("a").stat().st_size == region.FILE_BYTES
    assert stat.S_IMODE(ration.directory.stat().st_mode) == (0o700 if os.geteuid() else 0o711)
    end(process)
    assert ration.regions() == []


def test_nobody_can_find_the_file_who_is_not_told(ration):
    process = start_waiting(ration, "a", preexec_fn=lambda: os.umask(0o777))
    path = ration.region("a")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o711
    assert stat.S_IMODE(path.stat().st_mode) == 0o666
    again = start_waiting(ration, "b")
    assert len(path.name) == 39 and ration.region("b").name != path.name
    end(process)
    end(again)


def test_name_of_a_living_tenant(ration):
    process = start_waiting(ration, "a")
    out = ration("run", "--name", "a", "true")
    assert out.returncode == 125
    assert "'a'" in out.stderr and "living" in out.stderr
    end(process)
    assert ration("run", "--name", "a", "true").returncode == 0


def test_killed_outright_only_a_dead_file_is_left(ration):
    process = start_waiting(ration, "a", "--mem", "1g")
    process.kill()
    process.wait()
    process.stdin.close()
    assert ration.regions() == ["a.tenant"]
    assert limits_inside(ration, "--name", "a", "--mem", "2g") == "2g"
    assert ration.regions() == []


def test_no_limit_is_left_over_from_a_dead_file(ration):
    process = start_waiting(ration, "a", "--mem", "1g")
    process.kill()
    process.wait()
    process.stdin.close()
    assert limits_inside(ration, "--name", "a") is None


def damage(path, how):
    """What a program may have done to its tenant's file."""
    if how == "removed":
        path.unlink()
    elif how == "text":
        path.write_text("somebody's text")
    elif how == "short":
        os.truncate(path, 100)
    elif how == "longer":
        os.truncate(path, 2 * region.FILE_BYTES)
    elif how == "ones":
        path.write_bytes(b"\xff" * region.FILE_BYTES)
    elif how == "closed":
        path.chmod(0)
    elif how == "replaced":
        path.unlink()
        path.write_bytes(region.blank("other"))
    elif how == "link":
        path.unlink()
        path.symlink_to("/nonexistent/target")
    elif how == "fifo":
        path.unlink()
        os.mkfifo(path)
    elif how == "directory":
        path.unlink()
        path.mkdir()


DAMAGES = ["removed", "text", "short", "longer", "ones", "closed", "replaced", "link", "fifo",
           "directory"]


@pytest.mark.parametrize("how", DAMAGES)
def test_what_was_made_is_removed_whatever_it_is_by_now(ration, how):
    process = start_waiting(ration, "a")
    damage(ration.region("a"), how)
    end(process)
    assert ration.regions() == []


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("command", ["run", "ps"])
def test_what_a_killed_run_left_is_removed(ration, command, how):
    process = start_waiting(ration, "a")
    process.kill()
    process.wait()
    process.stdin.close()
    damage(ration.region("a"), how)
    assert ration(*[command] + ["true"] * (command == "run")).returncode == 0
    assert ration.regions() == []


def test_the_name_is_free_again_whatever_was_left(ration):
    ration.place("a").write_text("somebody's text")
    (ration.directory / "a.tenant").chmod(0o777)
    out = ration("run", "--name", "a", "sh", "-c", "ls $(dirname $RATION_REGION); "
                 "stat -c %a $(dirname $RATION_REGION)")
    assert out.stdout.splitlines()[0] != ration.place("a").name
    assert len(out.stdout.splitlines()) == 2 and out.stdout.splitlines()[1] == "711"


@pytest.mark.parametrize("command", ["run", "ps"])
def test_dead_files_are_removed(ration, command):
    ration.place("dead").write_bytes(region.blank())
    ration.place("young").write_bytes(b"")
    ration.place("empty")
    # What is not a tenant's place stays as it is.
    ration.place("other").with_name("other.region").write_bytes(b"somebody's text")
    (ration.directory / "folder").mkdir()
    (ration.directory / "notes.txt").write_bytes(region.blank())
    (ration.directory / "link.tenant").symlink_to(ration.directory / "folder")
    assert ration(*[command] + ["true"] * (command == "run")).returncode == 0
    assert ration.regions() == ["folder", "link.tenant", "notes.txt", "other.tenant"]


@pytest.mark.parametrize("lock", [region.LOCK_SLOT, region.LOCK_SLOT + 1023, region.LOCK_KEEPER, 0])
def test_living_files_are_not_removed(ration, lock):
    path = ration.place("alive")
    path.write_bytes(region.blank())
    with region.Lock(path, lock):
        ration("run", "true")
        ration("ps")
        assert ration.regions() == ["alive.tenant"]
        assert ration("run", "--name", "alive", "true").returncode == 125


def test_a_file_is_not_removed_while_a_descriptor_holds_memory_of_its_dead(ration, dead_pid):
    """Who comes next would have all of the limit beside that."""
    path = ration.place("alive")
    image = region.blank()
    region.add_device(image, 0, region.UUID, 2**30)
    region.add_process(image, 3, dead_pid, "x", [2**24])
    region.own(image, 3, dead_pid, start=1)
    region.put(image, region.HINTS_AT + 3, "B", 1)
    descriptor = region.export(image, 3, 2**24)
    path.write_bytes(image)
    ration("run", "true")
    ration("ps")
    assert ration.regions() == ["alive.tenant"]
    assert ration("run", "--name", "alive", "true").returncode == 125
    os.close(descriptor)
    assert ration("run", "--name", "alive", "true").returncode == 0


def test_a_process_that_lost_its_lock_lives(ration):
    path = ration.place("alive")
    image = region.blank()
    region.add_process(image, 3, os.getpid(), "x", [0])
    region.own(image, 3, os.getpid(), by_descriptor=True)
    region.put(image, region.HINTS_AT + 3, "B", 1)
    path.write_bytes(image)
    ration("run", "true")
    assert ration.regions() == ["alive.tenant"]


def fading(holds=500, reaped_ns=0):
    """A region whose one process was of another pid namespace, and has no lock any more."""
    image = region.blank()
    region.own(image, 0, 7, start=1, namespace=1)
    region.put(image, region.HINTS_AT, "B", 1)
    region.put(image, region.ACCOUNTS_AT, "Q", holds)
    region.put(image, region.REAPED_AT, "Q", reaped_ns)
    return image


def give_back(path):
    with open(path, "r+b") as file:
        file.seek(region.ACCOUNTS_AT)
        file.write(bytes(8))


def speaks(process, seconds):
    return bool(select.select([process.stdout], [], [], seconds)[0])


def test_what_nobody_can_see_the_end_of_is_waited_for(ration):
    path = ration.place("a")
    path.write_bytes(fading())
    process = ration.start("run", "--name", "a", "sh", "-c", "echo up", stdin=subprocess.DEVNULL)
    assert not speaks(process, 0.1)
    give_back(path)
    assert process.stdout.readline() == "up\n"
    assert process.wait(30) == 0
    assert ration.regions() == []


def test_one_of_two_that_wait_gets_the_name(ration):
    path = ration.place("a")
    path.write_bytes(fading())
    both = [ration.start("run", "--name", "a", "sh", "-c", "echo up; cat", stdin=subprocess.PIPE)
            for _ in range(2)]
    assert not any(speaks(process, 0.1) for process in both)
    give_back(path)
    said = [process.stdout.readline() for process in both]
    assert sorted(said) == ["", "up\n"]
    for process, word in zip(both, said):
        process.stdin.close()
        assert process.wait(30) == (0 if word else 125)


def test_others_do_not_wait_for_it(ration):
    path = ration.place("a")
    path.write_bytes(fading())
    for command in (["run", "--name", "b", "true"], ["ps"]):
        assert ration(*command).returncode == 0
        assert ration.regions() == ["a.tenant"]
    path.write_bytes(fading(reaped_ns=1))
    assert ration("ps").returncode == 0
    assert ration.regions() == []


def test_its_end_is_left_to_the_next(ration, tmp_path):
    image = tmp_path / "image"
    image.write_bytes(fading())
    script = f'dd if={image} of="$RATION_REGION" conv=notrunc status=none'
    assert ration("run", "--name", "a", "sh", "-c", script).returncode == 0
    assert ration.regions() == ["a.tenant"]
    assert ration("run", "--name", "a", "true").returncode == 0
    assert ration.regions() == []


def test_file_stays_while_a_process_of_the_tenant_lives(ration, eventually, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    ready = tmp_path / "ready"
    script = f"{sys.executable} -c \"$1\" <{fifo} & echo $! >{ready}"
    hold = HOLD.replace("sys.stdin.read()", f"open({str(ready)!r}, 'a').write('held'); sys.stdin.read()")
    process = ration.start("run", "--name", "a", "sh", "-c", script + "; read line <" + str(fifo),
                           "sh", hold, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(fifo, "w") as writer:
        eventually(lambda: "held" in (ready.read_text() if ready.exists() else ""))
        # The shell ends; the other stays.
        writer.write("\n")
        writer.flush()
        assert process.wait(30) == 0
        assert ration.regions() == ["a.tenant"]
        assert "a " in ration("ps").stdout
        assert ration("run", "--name", "a", "true").returncode == 125
    child = int(ready.read_text().split()[0].removesuffix("held"))
    eventually(lambda: not os.path.exists(f"/proc/{child}"))
    ration("ps")
    assert ration.regions() == []


def test_names_do_not_meet_over_pid_namespaces(ration):
    if os.geteuid() != 0:
        pytest.skip("needs root for a pid namespace")
    out = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", ration.path, "run", "sh", "-c",
         'echo "$RATION_NAME"; exec 3>&-; unshare --pid --fork --mount-proc "$0" ps', ration.path],
        env=ration.env, text=True, capture_output=True, timeout=60, check=False)
    if "unshare" in out.stderr:
        pytest.skip("no pid namespaces here")
    name = out.stdout.splitlines()[0]
    path = ration.place(name)
    path.write_bytes(region.blank())
    with region.kept(path):
        again = subprocess.run(
            ["unshare", "--pid", "--fork", "--mount-proc", ration.path, "run", "sh", "-c",
             'echo "$RATION_NAME"'],
            env=ration.env, text=True, capture_output=True, timeout=60, check=False)
    assert again.stdout == f"{name}-2\n"


def refused(ration, *wanted, env=None, **kwargs):
    out = ration("run", "--name", "a", "true", env=env, **kwargs)
    assert out.returncode == 125, out.stderr
    assert len(out.stderr.splitlines()) == 1
    for text in wanted:
        assert text in out.stderr


@pytest.mark.parametrize("kind", ["file", "link"])
def test_place_that_is_no_directory(ration, tmp_path, kind):
    ration.directory.mkdir()
    path = ration.directory / "a.tenant"
    if kind == "file":
        path.write_bytes(b"precious")
    else:
        path.symlink_to(tmp_path)
    refused(ration, str(path), "RATION_DIR")
    assert ration.regions() == ["a.tenant"]
    assert kind == "link" or path.read_bytes() == b"precious"


def test_name_that_another_user_has(ration):
    if os.geteuid() != 0:
        pytest.skip("needs root to give a directory away")
    os.chown(ration.place("a").parent, 65534, 65534)
    refused(ration, "'a'", "taken")


def test_file_size_limit(ration):
    size = f"needs {region.FILE_BYTES >> 10} KiB"
    refused(ration, size, "ulimit", preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY)))


def test_full_disk(ration, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    script = ('mount -t tmpfs -o size=1m none "$1" && exec env RATION_DIR="$1" "$0" run true')
    mount = tmp_path / "small"
    mount.mkdir()
    out = subprocess.run(["unshare", "-m", "sh", "-c", script, ration.path, mount], env=ration.env,
                         text=True, capture_output=True, timeout=60, check=False)
    if "unshare" in out.stderr or "mount:" in out.stderr:
        pytest.skip("no mounts here")
    assert out.returncode == 125
    assert "No space left" in out.stderr
    assert f"its {region.FILE_BYTES >> 10} KiB of space" in out.stderr


@pytest.mark.parametrize("what", ["file", "missing parent"])
def test_named_directory_that_cannot_be_used(ration, tmp_path, what):
    path = tmp_path / "x"
    if what == "file":
        path.write_bytes(b"")
    else:
        path = path / "y"
    refused(ration, "RATION_DIR", str(path), env={"RATION_DIR": path})


def test_named_directory_may_be_relative(ration, tmp_path):
    out = ration("run", "--name", "a", "sh", "-c", "echo $RATION_REGION",
                 env={"RATION_DIR": "here"}, cwd=tmp_path)
    assert os.path.dirname(out.stdout) == f"{tmp_path}/here/a.tenant"


def as_nobody(command, env, **kwargs):
    """Runs as a user without rights, if this one has the right to."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    return subprocess.run(command, env=env, text=True, capture_output=True, timeout=60, check=False,
                          user=65534, group=65534, extra_groups=[], **kwargs)


def test_directory_of_a_user_without_a_runtime_directory(ration, open_copy):
    env = {k: v for k, v in ration.env.items() if k not in ("RATION_DIR", "XDG_RUNTIME_DIR")}
    out = as_nobody([open_copy, "run", "--name", f"t{os.getpid()}", "sh", "-c",
                     "echo $RATION_REGION; stat -c %a /tmp/ration-65534"], env, cwd="/")
    assert out.stderr == ""
    path, mode = out.stdout.splitlines()
    assert (os.path.dirname(path), mode) == (f"/tmp/ration-65534/t{os.getpid()}.tenant", "700")


def test_runtime_directory_of_a_user(ration, open_copy, tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    runtime = tmp_path_factory.mktemp("runtime")
    os.chown(runtime, 65534, 65534)
    env = {k: v for k, v in ration.env.items() if k != "RATION_DIR"}
    env["XDG_RUNTIME_DIR"] = str(runtime)
    out = as_nobody([open_copy, "run", "--name", "a", "sh", "-c", "echo $RATION_REGION"], env,
                    cwd="/")
    assert os.path.dirname(out.stdout) == f"{runtime}/ration/a.tenant"
    # A directory that somebody else could write into is not used.
    (runtime / "ration").chmod(0o777)
    out = as_nobody([open_copy, "run", "--name", "a", "sh", "-c", "echo $RATION_REGION"], env,
                    cwd="/")
    assert os.path.dirname(out.stdout) == "/tmp/ration-65534/a.tenant"


def test_directory_in_tmp_that_belongs_to_somebody_else(ration, open_copy):
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    script = ('mount -t tmpfs none /tmp && mkdir /tmp/ration-65533 && chmod 777 /tmp/ration-65533 && '
              'cp "/proc/self/fd/$2" /tmp/libration.so && chmod 755 /tmp/libration.so && '
              'exec setpriv --reuid=65533 --regid=65533 --clear-groups "/proc/self/fd/$1" run true')
    env = {k: v for k, v in ration.env.items() if k not in ("RATION_DIR", "XDG_RUNTIME_DIR")}
    env["RATION_LIB"] = "/tmp/libration.so"
    with open(open_copy, "rb") as binary, open(conftest.BUILD / "libration.so", "rb") as library:
        fds = (binary.fileno(), library.fileno())
        out = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", *map(str, fds)], env=env, text=True,
                             pass_fds=fds, capture_output=True, timeout=60, check=False)
    if "unshare" in out.stderr or "mount:" in out.stderr:
        pytest.skip("no mounts here")
    assert out.returncode == 125
    assert "/tmp/ration-65533" in out.stderr and "RATION_DIR" in out.stderr


@pytest.fixture
def roots_directory(ration):
    """Where root's tenants stand by default."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if not os.access("/run", os.W_OK):
        pytest.skip("/run cannot be written")
    del ration.env["RATION_DIR"]
    return "/run/ration"


def test_others_cannot_find_a_file_of_root(ration, roots_directory):
    name = f"mode-{os.getpid()}"
    look = ('echo "$RATION_REGION"; stat -c %a "$RATION_REGION" "$(dirname "$RATION_REGION")"; '
            'setpriv --reuid=65533 --regid=65533 --clear-groups ls "$(dirname "$RATION_REGION")"')
    out = ration("run", "--name", name, "sh", "-c", look)
    path, *modes = out.stdout.splitlines()
    assert os.path.dirname(path) == f"{roots_directory}/{name}.tenant"
    assert modes == ["666", "711"]
    assert "Permission denied" in out.stderr
    assert stat.S_IMODE(os.stat(roots_directory).st_mode) & 0o777 in (0o711, 0o755)
    assert not os.path.exists(os.path.dirname(path))


def test_roots_directory_is_made_for_passing_through(ration):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    ration("run", "true")
    assert stat.S_IMODE(ration.directory.stat().st_mode) == 0o711


@pytest.mark.parametrize("drop", [
    "setpriv --reuid=65534 --regid=65534 --clear-groups",
    "setpriv --reuid=65534 --regid=65534 --clear-groups setpriv --no-new-privs",
])
def test_a_program_that_gives_up_root(ration, roots_directory, sim, open_copy, drop):
    env = {"RATION_SIM_FILE": f"{os.path.dirname(open_copy)}/sim/state"}
    out = subprocess.run([open_copy, "run", "--sim=mem=8g", "--mem", "1g", *drop.split(), open_copy,
                          "doctor"], env={**ration.env, **env}, text=True, capture_output=True,
                         timeout=60, check=False, cwd="/")
    assert out.returncode == 0, out.stdout + out.stderr
    assert "cuDeviceTotalMem shows 1 GiB under a limit of 1 GiB" in out.stdout


def test_terminated_it_cleans_up(ration):
    process = start_waiting(ration, "a")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == -signal.SIGTERM
    process.stdin.close()
    assert ration.regions() == []
