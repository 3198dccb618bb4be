"""`ration suspend` and `ration resume`: what is asked of a tenant, and what it answers."""

import os
import struct
import threading
import time

import pytest
import region

MIB = 1 << 20


def make(is_movable=True):
    image = region.blank(name="train")
    region.add_device(image, 0, region.UUID, 1 << 30, 8 << 30)
    region.add_process(image, 0, os.getpid(), "python3", [300 * MIB])
    region.own(image, 0, os.getpid())
    if is_movable:
        region.put(image, region.FLAGS_AT, "I", region.MOVABLE)
    return image


@pytest.fixture(name="tenant")
def make_tenant(ration):
    folder = ration.directory / "train.tenant"
    folder.mkdir(parents=True)
    path = folder / ("0" * 32 + ".region")
    path.write_bytes(make())
    with region.alive(path, 0):
        yield path


def want(path):
    return struct.unpack_from("<I", path.read_bytes(), region.SUSPEND_WANT_AT)[0]


def answer(path, wanted, card_bytes, host_bytes, is_suspended, rc=0):
    """Does what a process of the tenant does once it is asked."""

    def run():
        while want(path) != wanted:
            time.sleep(0.005)
        image = bytearray(path.read_bytes())
        region.set_residency(image, 0, card_bytes, host_bytes, is_suspended, rc)
        with open(path, "r+b") as f:
            f.seek(region.RESIDENCY_AT)
            f.write(image[region.RESIDENCY_AT:region.RESIDENCY_AT + region.RESIDENCY_BYTES])

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_suspend_and_resume(ration, tenant):
    thread = answer(tenant, 1, 0, 300 * MIB, 1)
    done = ration("suspend", "train")
    thread.join()
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{os.getpid()} python3: suspended, 300 MiB in host memory\n"
    assert "1 suspended" in ration("ps").stdout
    thread = answer(tenant, 0, 300 * MIB, 0, 0)
    done = ration("resume", str(tenant))
    thread.join()
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{os.getpid()} python3: runs, 300 MiB on the GPU\n"
    assert "suspended" not in ration("ps").stdout


def test_a_process_that_does_not_answer(ration, tenant):
    done = ration("suspend", "train", "--wait", "0")
    assert done.returncode == 1
    assert done.stdout == f"{os.getpid()} python3: not yet: it has not answered (it is stopped, or has just begun)\n"
    assert want(tenant) == 1


def test_a_process_that_cannot(ration, tenant):
    thread = answer(tenant, 1, 0, 0, 0, -12)
    # It is said long before that time is over.
    done = ration("suspend", "train", "--wait", "86400")
    thread.join()
    assert done.returncode == 1
    assert done.stdout.startswith(f"{os.getpid()} python3: not yet: Cannot allocate memory (no room in host memory")
    assert "not all of its processes are suspended" in done.stderr


def test_a_reason_of_an_earlier_time(ration, tenant):
    """It may be gone: the process has not tried again yet."""
    thread = answer(tenant, 1, 0, 0, 0, -12)
    ration("suspend", "train")
    thread.join()
    done = ration("suspend", "train", "--wait", "1")
    assert done.returncode == 1
    assert done.stdout == f"{os.getpid()} python3: not yet: it has not answered (it is stopped, or has just begun)\n"


def test_a_process_that_is_busy_is_waited_for(ration, tenant):
    thread = answer(tenant, 1, 0, 0, 0, -16)
    done = ration("suspend", "train", "--wait", "2")
    thread.join()
    assert done.returncode == 1
    assert done.stdout == (f"{os.getpid()} python3: not yet: Device or resource busy"
                           " (its work does not end)\n")


def test_a_tenant_that_cannot_move(ration, tenant):
    tenant.write_bytes(make(is_movable=False))
    done = ration("suspend", "train")
    assert done.returncode == 1 and "started without --movable" in done.stderr
    assert want(tenant) == 0
    # It is where it always was.
    done = ration("resume", "train")
    assert (done.returncode, done.stdout) == (0, f"{os.getpid()} python3: runs, 300 MiB on the GPU\n")


@pytest.mark.parametrize("arguments, status, text", [
    (["nobody"], 1, "there is no tenant 'nobody' here"),
    ([], 2, "the tenant is missing"),
    (["train", "more"], 2, "'more' is one argument too many"),
    (["train", "--wait=soon"], 2, "'soon' is no number of seconds"),
    (["train", "--wait=-1"], 2, "'-1' is no number of seconds"),
])
@pytest.mark.parametrize("command", ["suspend", "resume"])
def test_wrong_calls(ration, tenant, command, arguments, status, text):
    done = ration(command, *arguments)
    assert done.returncode == status and text in done.stderr
    assert want(tenant) == 0
