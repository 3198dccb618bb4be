"""Region files as include/ration/region.h lays them out, made by hand to be looked at."""

import fcntl
import os
import struct

HAMI_MAGIC = 19920718
HAMI_BYTES = 2008952
HAMI_SLOTS_AT, HAMI_SLOT_BYTES = 1856, 1960
RATION_AT = 2011136
RATION_MAGIC = 0x31304E4F49544152
DEVICES_AT = RATION_AT + 3584
ACCOUNTS_AT = DEVICES_AT + 128 * 32
SLOTS_AT = ACCOUNTS_AT + 64 * 32
SLOT_BYTES = 64 + (8 + 32) * 32
SM_SPEC_AT = SLOTS_AT + 1024 * SLOT_BYTES
SM_POLICY_AT = SM_SPEC_AT + 2048 + 128
SM_CHANGE_AT = SM_POLICY_AT + 4
EXPORTERS_AT = SM_CHANGE_AT + 4
PACE_AT = SM_CHANGE_AT + 4 + 47 * 8
PACE_BYTES = 256 + 2112 * 8 + 1024 * 64  # include/ration/pace.h
RESIDENCY_AT, RESIDENCY_BYTES = PACE_AT + 32 * PACE_BYTES, 448
SHARED_POOLS_AT, SHARED_POOLS_BYTES = RESIDENCY_AT + 1024 * RESIDENCY_BYTES, 16
FILE_BYTES = SHARED_POOLS_AT + 1024 * SHARED_POOLS_BYTES
LAYOUT = 4
FLAGS_AT, SUSPEND_WANT_AT, SUSPEND_ASKS_AT = RATION_AT + 2288, RATION_AT + 2312, RATION_AT + 2460
SUSPEND_ANSWERED = 424
HINTS_AT, REAPED_AT = RATION_AT + 2560, RATION_AT + 2464
MOVABLE = 2
POLICY_DEFAULT, POLICY_FORCE, POLICY_DISABLE = 0, 1, 2
LOCK_SLOT = 1 << 40
LOCK_KEEPER = LOCK_SLOT + 65536

UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"


def put(image, at, fmt, *values):
    struct.pack_into("<" + fmt, image, at, *values)


def blank(name="tenant", spec="1g", source="RATION_MEM", sm_spec="", sm_source="",
          sm_policy=POLICY_FORCE):
    """An initialised region of ours without devices."""
    image = bytearray(FILE_BYTES)
    put(image, 0, "iII", HAMI_MAGIC, 1, 2)
    put(image, RATION_AT, "QII", RATION_MAGIC, LAYOUT, FILE_BYTES)
    put(image, RATION_AT + 16, "II", 32, 1024)
    put(image, RATION_AT + 32, "Q", 1700000000)
    put(image, RATION_AT + 48, "64s", name.encode())
    put(image, RATION_AT + 112, "2048s", spec.encode())
    put(image, RATION_AT + 2160, "128s", source.encode())
    put(image, RATION_AT + 2292, "I", 2)
    put(image, SM_SPEC_AT, "2048s128sII", sm_spec.encode(), sm_source.encode(), sm_policy, 2)
    put(image, 1728, "16Q", *[100] * 16)
    put(image, 2008900, "i", 1)
    return image


def add_device(image, index, uuid, limit, physical=0, sm_limit=100):
    put(image, DEVICES_AT + 128 * index, "48sQ", uuid.encode(), physical)
    put(image, RATION_AT + 24, "I", index + 1)
    put(image, 56, "Q", index + 1)
    put(image, 64 + 96 * index, "96s", uuid.encode())
    put(image, 1600 + 8 * index, "Q", limit)
    put(image, 1728 + 8 * index, "Q", sm_limit)


def add_process(image, slot, pid, comm, used):
    """A process with `used` bytes by device: its operation 1 took place."""
    at = SLOTS_AT + SLOT_BYTES * slot
    put(image, at + 8, "I", pid)
    put(image, at + 16, "16s", comm.encode())
    for device, size in enumerate(used):
        put(image, at + 64 + 8 * 32 + 32 * device, "QQQQ", 1, 1, 0, size)
    hami = HAMI_SLOTS_AT + HAMI_SLOT_BYTES * slot
    put(image, hami, "ii", pid, 0)
    put(image, hami + 1928, "i", 1)
    for device, size in enumerate(used):
        put(image, hami + 8 + 64 * device + 32, "Q", size)
    bound = struct.unpack_from("<i", image, 2008896)[0]
    put(image, 2008896, "i", max(bound, slot + 1))


def set_residency(image, slot, card_bytes, host_bytes, is_suspended, rc=0):
    """As a process does that has answered what was asked last."""
    at = RESIDENCY_AT + RESIDENCY_BYTES * slot
    put(image, at, "Q", card_bytes)
    put(image, at + 256, "QQIi", host_bytes, 0, is_suspended, rc)
    put(image, at + SUSPEND_ANSWERED, "I", struct.unpack_from("<I", image, SUSPEND_ASKS_AT)[0])


def start_ticks(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[19])


def own(image, slot, pid, start=None, by_descriptor=False, namespace=None):
    """Says whose the slot is: the process `pid`, of this pid namespace if no other is given."""
    at = SLOTS_AT + SLOT_BYTES * slot
    put(image, at, "QI", start_ticks(pid) if start is None else start, pid)
    put(image, at + 32, "QI", os.stat("/proc/self/ns/pid").st_ino if namespace is None else namespace,
        by_descriptor)


def _mix(word, more):
    word = (word ^ more) * 0x9E3779B97F4A7C15 % 2**64
    return word ^ word >> 29


def export(image, slot, size):
    """What stands for a descriptor that the slot's owner gave out, of memory of that size."""
    at = SLOTS_AT + SLOT_BYTES * slot
    start, pid, lifeline = struct.unpack_from("<QII", image, at)
    owner = slot + 1
    for word in (*struct.unpack_from("<Q", image, at + 32), pid, start, lifeline):
        owner = _mix(owner, word)
    bits = EXPORTERS_AT + 8 * (slot // 64)
    put(image, bits, "Q", struct.unpack_from("<Q", image, bits)[0] | 1 << slot % 64)
    fd = os.memfd_create("exported")
    units = -(-size // 2**21)
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK,
                struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 2**61 | owner % 2**61,
                            2**59 | units << 34 | 1, 0))
    return fd


class Lock:
    """Holds a byte of a file as a living process or a `ration run` does."""

    def __init__(self, path, at, length=1):
        self.fd = os.open(path, os.O_RDWR)
        fcntl.fcntl(self.fd, fcntl.F_OFD_SETLK,
                    struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, at, length, 0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)


def alive(path, slot):
    return Lock(path, LOCK_SLOT + slot)


def kept(path):
    return Lock(path, LOCK_KEEPER)
