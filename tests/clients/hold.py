"""Holds memory of a device until its input ends: hold.py DEVICE BYTES"""

import ctypes
import sys

cuda = ctypes.CDLL("libcuda.so.1")


def check(result, call):
    if result:
        sys.exit(f"{call}: {result}")


device = ctypes.c_int()
context = ctypes.c_void_p()
pointer = ctypes.c_uint64()
size_bytes = ctypes.c_size_t(int(sys.argv[2]))
check(cuda.cuInit(0), "cuInit")
check(cuda.cuDeviceGet(ctypes.byref(device), int(sys.argv[1])), "cuDeviceGet")
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
check(cuda.cuMemAlloc_v2(ctypes.byref(pointer), size_bytes), "cuMemAlloc_v2")
print("holds", flush=True)
sys.stdin.read()
