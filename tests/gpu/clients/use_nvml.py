"""nvidia-ml-py: what NVML says of the card."""
import sys

import pynvml

pynvml.nvmlInit()
dev = pynvml.nvmlDeviceGetHandleByIndex(0)
print("name", pynvml.nvmlDeviceGetName(dev))
print("uuid", pynvml.nvmlDeviceGetUUID(dev))
print("count", pynvml.nvmlDeviceGetCount())
if len(sys.argv) > 1:
    limit = int(sys.argv[1])
    for version in (None, pynvml.nvmlMemory_v2):
        info = pynvml.nvmlDeviceGetMemoryInfo(dev, version=version)
        assert info.total == limit, (info.total, limit)
        assert info.used == 0 and info.free == limit, info
