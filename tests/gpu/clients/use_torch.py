"""PyTorch: results that must not change under a limit, then the limit itself."""
import sys

import torch

torch.use_deterministic_algorithms(True)
torch.manual_seed(1)
a = torch.randn(1024, 1024, device="cuda")
b = torch.randn(1024, 1024, device="cuda")
conv = torch.nn.Conv2d(8, 16, 3).cuda()
image = torch.randn(4, 8, 64, 64, device="cuda")
print("matmul", (a @ b).double().sum().item().hex())
print("conv", conv(image).double().sum().item().hex())
print("sort", torch.sort(a.flatten()).values[12345].item().hex())
graph = torch.cuda.CUDAGraph()
out = torch.zeros_like(a)
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    torch.mul(a, 2.0, out=out)
torch.cuda.current_stream().wait_stream(side)
with torch.cuda.graph(graph):
    torch.mul(a, 2.0, out=out)
graph.replay()
torch.cuda.synchronize()
print("graph", out.double().sum().item().hex())
if len(sys.argv) > 1:
    limit = int(sys.argv[1])
    free, total = torch.cuda.mem_get_info()
    assert total == limit, (total, limit)
    assert free <= limit
    assert torch.cuda.get_device_properties(0).total_memory == limit
    held = []
    try:
        while True:
            held.append(torch.empty(256 << 20, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        pass
    got = torch.cuda.memory_reserved()
    assert limit // 2 < got < limit, (got, limit)
    assert torch.cuda.mem_get_info()[0] < (256 << 20) + (20 << 20)
    print("refused after", got >> 20, "MiB", file=sys.stderr)
    del held
    torch.cuda.empty_cache()
    torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
