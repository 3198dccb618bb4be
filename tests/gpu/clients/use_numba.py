"""Numba: the driver API through ctypes."""
import sys

import numpy as np

if not hasattr(np, "row_stack"):  # numba 0.6x still asks for what numpy 2.5 has dropped
    np.row_stack = np.vstack
from numba import cuda


@cuda.jit
def scale(values, factor):
    i = cuda.grid(1)
    if i < values.size:
        values[i] *= factor


host = np.arange(1 << 16, dtype=np.float32)
device = cuda.to_device(host)
scale[(host.size + 255) // 256, 256](device, 2.5)
print("scale", float(device.copy_to_host().astype(np.float64).sum()).hex())
if len(sys.argv) > 1:
    limit = int(sys.argv[1])
    free, total = cuda.current_context().get_memory_info()
    assert total == limit and free < limit, (free, total)
    held = []
    try:
        while True:
            held.append(cuda.device_array(256 << 20, dtype=np.uint8))
    except cuda.cudadrv.driver.CudaAPIError as error:
        assert "OUT_OF_MEMORY" in str(error) or error.code == 2, error
    got = len(held) * (256 << 20)
    assert limit // 2 < got < limit, (got, limit)
    print("refused after", got >> 20, "MiB", file=sys.stderr)
