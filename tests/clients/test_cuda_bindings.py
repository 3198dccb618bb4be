"""cuda.bindings.driver, unchanged: it finds every call by cuGetProcAddress"""

import textwrap

MIB = 1 << 20

PROLOGUE = """
import ctypes
from cuda.bindings import driver as cu

def ok(answer):
    error, *rest = answer
    assert error == cu.CUresult.CUDA_SUCCESS, error
    return rest[0] if len(rest) == 1 else tuple(rest)

def error(answer):
    return answer[0].name

MIB = 1 << 20
ok(cu.cuInit(0))
device = ok(cu.cuDeviceGet(0))
context = ok(cu.cuDevicePrimaryCtxRetain(device))
ok(cu.cuCtxSetCurrent(context))
PTX = b".version 6.0\\n.target sm_50\\n.address_size 64\\n"
"""


def run(machine, code):
    return machine.python(PROLOGUE + textwrap.dedent(code)).split()


def test_device(machine):
    machine.configure("count=2,mem=8g,name=Sim One/Sim Two,driver=13.0,sms=16")
    out = run(
        machine,
        """
        print(ok(cu.cuDriverGetVersion()), ok(cu.cuDeviceGetCount()))
        print(ok(cu.cuDeviceGetName(32, 1)).split(b"\\0")[0].decode().replace(" ", "_"))
        print(ok(cu.cuDeviceTotalMem(device)) // MIB)
        sms = cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
        print(ok(cu.cuDeviceGetAttribute(sms, device)))
        print(len(ok(cu.cuDeviceGetUuid(device)).bytes), error(cu.cuDeviceGet(7)))
        """,
    )
    assert out == ["13000", "2", "Sim_Two", "8192", "16", "16", "CUDA_ERROR_INVALID_DEVICE"]


def test_memory(machine):
    machine.configure("mem=1g,context=64m")
    out = run(
        machine,
        """
        data = bytearray(range(256)) * 64
        back = bytearray(len(data))
        address = ok(cu.cuMemAlloc(len(data)))
        print([x // MIB for x in ok(cu.cuMemGetInfo())])
        ok(cu.cuMemcpyHtoD(address, bytes(data), len(data)))
        ok(cu.cuMemcpyDtoH((ctypes.c_char * len(back)).from_buffer(back), address, len(back)))
        print(data == back)
        kind = cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
        print(int(ok(cu.cuPointerGetAttribute(kind, address))))
        ok(cu.cuMemFree(address))
        print(error(cu.cuMemFree(address)), error(cu.cuMemAlloc(2 << 30)))
        """,
    )
    assert out == [
        "[958,",
        "1024]",
        "True",
        "2",
        "CUDA_ERROR_INVALID_VALUE",
        "CUDA_ERROR_OUT_OF_MEMORY",
    ]


def test_mapped_memory(machine):
    out = run(
        machine,
        """
        prop = cu.CUmemAllocationProp()
        prop.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        prop.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        prop.location.id = 0
        least = cu.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        size = ok(cu.cuMemGetAllocationGranularity(prop, least))
        access = cu.CUmemAccessDesc()
        access.location = prop.location
        access.flags = cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        address = ok(cu.cuMemAddressReserve(2 * size, 0, 0, 0))
        second = cu.CUdeviceptr(int(address) + size)
        handle = ok(cu.cuMemCreate(size, prop, 0))
        for at in (address, second):
            ok(cu.cuMemMap(at, size, 0, handle, 0))
            ok(cu.cuMemSetAccess(at, size, [access], 1))
        ok(cu.cuMemsetD32(address, 77, size // 4))
        value = ctypes.c_uint()
        ok(cu.cuMemcpyDtoH(ctypes.addressof(value), second, 4))
        print(size // MIB, value.value)
        ok(cu.cuMemUnmap(address, 2 * size))
        ok(cu.cuMemRelease(handle))
        ok(cu.cuMemAddressFree(address, 2 * size))
        """,
    )
    assert out == ["2", "77"]


def test_launch(machine):
    out = run(
        machine,
        """
        module = ok(cu.cuModuleLoadData(PTX))
        fill = ok(cu.cuModuleGetFunction(module, b"fill"))
        stream = ok(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING))
        start, end = ok(cu.cuEventCreate(0)), ok(cu.cuEventCreate(0))
        address = ok(cu.cuMemAlloc(4 * MIB))
        values = (int(address), 0x1234, MIB)
        types = (ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint64)
        ok(cu.cuEventRecord(start, stream))
        ok(cu.cuLaunchKernel(fill, 64, 1, 1, 256, 1, 1, 0, stream, (values, types), 0))
        ok(cu.cuEventRecord(end, stream))
        ok(cu.cuStreamSynchronize(stream))
        print(ok(cu.cuEventElapsedTime(start, end)) > 0)
        value = ctypes.c_uint()
        ok(cu.cuMemcpyDtoH(ctypes.addressof(value), int(address) + 4 * MIB - 4, 4))
        print(hex(value.value))
        print(error(cu.cuModuleGetFunction(module, b"none")))
        print(error(cu.cuLaunchKernel(fill, 0, 1, 1, 1, 1, 1, 0, stream, (values, types), 0)))
        """,
    )
    assert out == ["True", "0x1234", "CUDA_ERROR_NOT_FOUND", "CUDA_ERROR_INVALID_VALUE"]


def test_pool_and_graph(machine):
    out = run(
        machine,
        """
        stream = ok(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING))
        pool = ok(cu.cuDeviceGetDefaultMemPool(device))
        held = cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
        address = ok(cu.cuMemAllocAsync(MIB, stream))
        print(int(ok(cu.cuMemPoolGetAttribute(pool, held))) // MIB)
        mode = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
        ok(cu.cuStreamBeginCapture(stream, mode))
        ok(cu.cuMemsetD32Async(address, 5, 1, stream))
        graph = ok(cu.cuStreamEndCapture(stream))
        exec_graph = ok(cu.cuGraphInstantiate(graph, 0))
        ok(cu.cuGraphLaunch(exec_graph, stream))
        ok(cu.cuStreamSynchronize(stream))
        value = ctypes.c_uint()
        ok(cu.cuMemcpyDtoH(ctypes.addressof(value), address, 4))
        print(value.value)
        ok(cu.cuMemFreeAsync(address, stream))
        ok(cu.cuStreamSynchronize(stream))
        print(int(ok(cu.cuMemPoolGetAttribute(pool, held))))
        """,
    )
    assert out == ["32", "5", "0"]


def test_older_driver(machine):
    machine.configure("driver=12.4")
    out = run(
        machine,
        """
        print(ok(cu.cuDriverGetVersion()))
        ok(cu.cuMemFree(ok(cu.cuMemAlloc(1))))
        ok(cu.cuCtxSynchronize())
        print("runs")
        """,
    )
    assert out == ["12040", "runs"]


def test_not_supported(machine):
    out = run(machine, "print(error(cu.cuMulticastAddDevice(cu.CUmemGenericAllocationHandle(0), device)))")
    assert out == ["CUDA_ERROR_NOT_SUPPORTED"]
