"""What the scripts share that ask a card how its driver behaves: its calls by ctypes, and questions.

Needs the driver alone. Each question is asked in a process of its own, so that an error that stays ends
with it. With LD_LIBRARY_PATH=build/sim they run on the software GPU, which has no kernels but its own
(docs/sim.md): what needs others answers 200 or 218 there.
"""
import argparse
import ctypes
import subprocess
import sys
import time

MIB = 1 << 20
PIECE = 2 * MIB
DEVICE, HOST, HOST_NUMA = 1, 2, 3
READ_WRITE, NON_BLOCKING, GLOBAL, RELAXED, NO_TIMING = 3, 1, 0, 2, 2
U64, VOID = ctypes.c_uint64, ctypes.c_void_p
SUM_PTX = b""".version 6.0
.target sm_50
.address_size 64
.visible .entry sum(.param .u64 address, .param .u32 times)
{
	.reg .b64 %a<6>;
	.reg .b32 %t<8>;
	.reg .pred %p;
	ld.param.u64 %a1, [address];
	ld.param.u32 %t1, [times];
	mov.u32 %t2, 0;
again:
	setp.ge.u32 %p, %t2, %t1;
	@%p bra end;
	atom.global.add.u32 %t3, [%a1], 1;
	atom.global.add.u64 %a2, [%a1+8], 1;
	atom.global.max.u32 %t3, [%a1+16], %t2;
	atom.global.cas.b32 %t3, [%a1+20], %t2, %t1;
	atom.global.add.f32 %t4, [%a1+24], 0f3F800000;
	atom.global.or.b32 %t3, [%a1+28], %t2;
	add.u32 %t2, %t2, 1;
	bra again;
end:
	ret;
}
.visible .entry spin(.param .u64 ns)
{
	.reg .b64 %t<4>;
	.reg .pred %p;
	ld.param.u64 %t1, [ns];
	mov.u64 %t2, %globaltimer;
again:
	mov.u64 %t3, %globaltimer;
	sub.u64 %t3, %t3, %t2;
	setp.lt.u64 %p, %t3, %t1;
	@%p bra again;
	ret;
}
"""

cuda = ctypes.CDLL("libcuda.so.1")
QUESTIONS = {}


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Prop(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location),
                ("win32", VOID), ("compression", ctypes.c_ubyte), ("rdma", ctypes.c_ubyte),
                ("usage", ctypes.c_ushort), ("reserved", ctypes.c_ubyte * 4)]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


def question(func):
    QUESTIONS[func.__name__] = func
    return func


def try_call(name, *args):
    """The driver's answer; -1 when it lacks the name."""
    func = getattr(cuda, name, None)
    return func(*args) if func else -1


def call(name, *args):
    res = try_call(name, *args)
    if res != 0:
        raise SystemExit(f"{name}: {res}")


def out(kind, name, *args):
    value = kind()
    call(name, ctypes.byref(value), *args)
    return value


def say(what, answer):
    print(f"{what}: {answer}", flush=True)


def start(index=0):
    call("cuInit", 0)
    context = out(VOID, "cuDevicePrimaryCtxRetain", index)
    call("cuCtxSetCurrent", context)
    return context


def prop(place, index=0):
    return Prop(type=1, location=Location(place, index))


def create(place, size, index=0):
    return out(U64, "cuMemCreate", U64(size), ctypes.byref(prop(place, index)), U64(0))


def reserve(size):
    return out(U64, "cuMemAddressReserve", U64(size), U64(0), U64(0), U64(0)).value


def map_at(address, handle, size, offset=0):
    return try_call("cuMemMap", U64(address), U64(size), U64(offset), handle, U64(0))


def allow(address, size, places=((DEVICE, 0),)):
    rows = (Access * len(places))(*[Access(Location(*place), READ_WRITE) for place in places])
    return try_call("cuMemSetAccess", U64(address), U64(size), rows, U64(len(places)))


def unmap(address, size):
    return try_call("cuMemUnmap", U64(address), U64(size))


def mapped(place, size, index=0):
    """An address with memory of that place behind it."""
    handle, address = create(place, size, index), reserve(size)
    for res in (map_at(address, handle, size), allow(address, size)):
        if res != 0:
            raise SystemExit(f"mapped: {res}")
    return address, handle


def exchange(address, size, handle):
    for res in (unmap(address, size), map_at(address, handle, size), allow(address, size)):
        if res != 0:
            return res
    return 0


def word(address):
    value = ctypes.c_uint32()
    call("cuMemcpyDtoH_v2", ctypes.byref(value), U64(address), U64(4))
    return value.value


def fill(address, value, size):
    call("cuMemsetD32_v2", U64(address), ctypes.c_uint(value), U64(size // 4))


def event(flags=0):
    return out(VOID, "cuEventCreate", flags)


def stream():
    return out(VOID, "cuStreamCreate", NON_BLOCKING)


def own_kernel(name):
    module = VOID()
    res = try_call("cuModuleLoadData", ctypes.byref(module), SUM_PTX)
    func = VOID()
    res = res or try_call("cuModuleGetFunction", ctypes.byref(func), module, name)
    return func if res == 0 else None


def launch(func, where, *values):
    params = (VOID * len(values))(*[ctypes.cast(ctypes.pointer(v), VOID) for v in values])
    return try_call("cuLaunchKernel", func, 1, 1, 1, 32, 1, 1, 0, where, params, None)


def us(action, times=20):
    spans = []
    for _ in range(times):
        begin = time.perf_counter_ns()
        action()
        spans.append(time.perf_counter_ns() - begin)
    return f"{sorted(spans)[len(spans) // 2] / 1000:.1f} us"


def main(about, others=None):
    """`others`: options that a question starts a process with, each with its function."""
    parser = argparse.ArgumentParser(description=about.split("\n", maxsplit=1)[0])
    parser.add_argument("--list", action="store_true", help="the questions' names")
    parser.add_argument("--ask", help=argparse.SUPPRESS)
    for option in others or {}:
        parser.add_argument(f"--{option}", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("questions", nargs="*")
    args = parser.parse_args()
    for option, func in (others or {}).items():
        if getattr(args, option):
            func(*getattr(args, option))
            return
    if args.ask:
        QUESTIONS[args.ask]()
    elif args.list:
        print("\n".join(QUESTIONS))
    else:
        for name in args.questions or QUESTIONS:
            print(f"== {name}", flush=True)
            res = subprocess.run([sys.executable, sys.argv[0], "--ask", name], timeout=300, check=False)
            if res.returncode != 0:
                print(f"ended with {res.returncode}", flush=True)
