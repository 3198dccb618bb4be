"""CuPy: results that must not change under a limit, then the limit itself."""
import sys

import cupy

a = cupy.arange(1 << 20, dtype=cupy.float64).reshape(1024, 1024)
print("matmul", float((a @ a.T).sum()).hex())
print("fft", float(cupy.abs(cupy.fft.fft(a[3])).sum()).hex())
kernel = cupy.ElementwiseKernel("float64 x", "float64 y", "y = x * 3 + 1", "triple")
print("kernel", float(kernel(a).sum()).hex())
if len(sys.argv) > 1:
    limit = int(sys.argv[1])
    free, total = cupy.cuda.runtime.memGetInfo()
    assert total == limit and free < limit, (free, total)
    pool = cupy.get_default_memory_pool()
    held = []
    try:
        while True:
            held.append(cupy.empty(256 << 20, dtype=cupy.uint8))
    except cupy.cuda.memory.OutOfMemoryError:
        pass
    got = pool.total_bytes()
    assert limit // 2 < got < limit, (got, limit)
    print("refused after", got >> 20, "MiB", file=sys.stderr)
