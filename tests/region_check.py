#!/usr/bin/env python3
"""Judges a region file as the monitors of HAMi, Volcano and KAI read it.

They are Go programs that map the file and trust it: some of what is checked here would end them.
The layout is the HAMi one, 1.2, of include/ration/region.h; nothing is taken from the library.

    region_check.py FILE...     says what is wrong, exit status 1 if anything is
"""
import struct
import sys

MAGIC = 19920718
FILE_BYTES = 2008952
DEVICES = 16
SLOTS = 1024
UUID_CHARS = 40

# Offsets in the file.
MAGIC_AT, MAJOR_AT, MINOR_AT, SEM_AT, DEVICE_NUM_AT = 0, 4, 8, 24, 56
UUIDS_AT, UUID_BYTES = 64, 96
SM_LIMIT_AT = 1728
SLOTS_AT, SLOT_BYTES = 1856, 1960
PROC_NUM_AT, SWITCH_AT, RECENT_AT, PRIORITY_AT = 2008896, 2008900, 2008904, 2008908
SEM_POSTINIT_AT = 2008920

# Offsets in a slot, then in a row of its tables.
PID_AT, USED_AT, UTIL_AT, STATUS_AT, SEQLOCK_AT = 0, 8, 1160, 1928, 1936
USED_BYTES, UTIL_BYTES = 64, 48
CONTEXT, MODULE, DATA, TOTAL = 0, 8, 16, 32
SM_PCT = 16


class Region:
    def __init__(self, data):
        self.data = data

    def i32(self, at):
        return struct.unpack_from("<i", self.data, at)[0]

    def u64(self, at):
        return struct.unpack_from("<Q", self.data, at)[0]

    def uuid(self, device):
        at = UUIDS_AT + device * UUID_BYTES
        return self.data[at : at + UUID_BYTES]

    @staticmethod
    def slot(index):
        return SLOTS_AT + index * SLOT_BYTES

    def used(self, index, device, field):
        return self.u64(self.slot(index) + USED_AT + device * USED_BYTES + field)

    def sm_pct(self, index, device):
        return self.u64(self.slot(index) + UTIL_AT + device * UTIL_BYTES + SM_PCT)


def check_header(r):
    if r.i32(MAGIC_AT) != MAGIC:
        yield "the magic number is missing"
    if r.i32(MAJOR_AT) != 1:
        yield f"major version {r.i32(MAJOR_AT)}, readers want 1"
    if r.i32(MINOR_AT) != 2:
        yield f"minor version {r.i32(MINOR_AT)}, this is the layout of 2"
    if r.u64(DEVICE_NUM_AT) > DEVICES:
        yield f"device_num {r.u64(DEVICE_NUM_AT)} is above {DEVICES}"
    if not 0 <= r.i32(PROC_NUM_AT) <= SLOTS:
        yield f"proc_num {r.i32(PROC_NUM_AT)}: readers slice with it and panic"
    if r.i32(PRIORITY_AT) not in (0, 1):
        yield f"priority {r.i32(PRIORITY_AT)}: readers index with it and panic"
    if r.i32(SWITCH_AT) not in (0, 1):
        yield f"utilization_switch {r.i32(SWITCH_AT)}"
    if not -1 <= r.i32(RECENT_AT) <= 2:
        yield f"recent_kernel {r.i32(RECENT_AT)}"
    for at in (SEM_AT, SEM_POSTINIT_AT):
        if r.data[at : at + 32] != struct.pack("<QI20x", 1, 128):
            yield f"no free semaphore shared between processes at {at}"


def check_devices(r):
    count = min(r.u64(DEVICE_NUM_AT), DEVICES)
    for device in range(DEVICES):
        uuid = r.uuid(device)
        text = uuid.rstrip(b"\0")
        if device >= count:
            if text:
                yield f"device {device} is beyond device_num and has a UUID: it would be counted"
            continue
        # All 96 bytes are a reader's key.
        if b"\0" in text or len(text) != UUID_CHARS:
            yield f"device {device}: a UUID is {UUID_CHARS} characters, then zeros: {text!r}"
        elif not text.startswith((b"GPU-", b"MIG-")):
            yield f"device {device}: {text!r} is no UUID"
        if uuid in [r.uuid(other) for other in range(device)]:
            yield f"device {device} is there twice"


def check_slots(r):
    bound = min(max(r.i32(PROC_NUM_AT), 0), SLOTS)
    for index in range(SLOTS):
        at = r.slot(index)
        status, pid = r.i32(at + STATUS_AT), r.i32(at + PID_AT)
        if status not in (0, 1, 2):
            yield f"slot {index}: status {status}"
        if index >= bound and (status or pid):
            yield f"slot {index} is in use, proc_num is {bound}"
        if (status == 0) != (pid == 0):
            yield f"slot {index}: status {status} with pid {pid}"
        for device in range(DEVICES):
            total = r.used(index, device, TOTAL)
            parts = sum(r.used(index, device, part) for part in (CONTEXT, MODULE, DATA))
            if total < parts:
                yield f"slot {index}, device {device}: total {total} is below its parts {parts}"
            if status == 0 and (total or parts):
                yield f"slot {index}, device {device}: {total} bytes in a free slot are counted by some"
            if r.sm_pct(index, device) > 100 or (status == 0 and r.sm_pct(index, device)):
                yield f"slot {index}, device {device}: utilisation {r.sm_pct(index, device)} %"


def check(path):
    """What is wrong with the file: a list of texts, empty if nothing is."""
    with open(path, "rb") as f:
        data = f.read()
    if len(data) < FILE_BYTES:
        return [f"{len(data)} bytes: below {FILE_BYTES} readers take it for version 0"]
    r = Region(data)
    return [*check_header(r), *check_devices(r), *check_slots(r)]


def main():
    failed = False
    for path in sys.argv[1:]:
        for fault in check(path):
            print(f"{path}: {fault}")
            failed = True
    return 1 if failed or not sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
