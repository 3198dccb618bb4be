"""Triton: a kernel of its own compiler."""
import torch
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


n = 100003
x = torch.arange(n, device="cuda", dtype=torch.float32)
out = torch.empty_like(x)
add[(triton.cdiv(n, 1024),)](x, x, out, n, block=1024)
torch.cuda.synchronize()
print("add", out.double().sum().item().hex())
