"""PyTorch: bf16 products of two n x n matrices, 16 in flight, as bench/share keeps the GPU busy.

  matmul_torch.py N

Reads lines "run SECONDS" and answers each with bench/share's line: launches, ns of the window, 0 (kernels
of a library write nothing down), and the median, the 99th percentile and the longest of what 16 of them took.
"""
import sys
import time

import torch

N, DEPTH = int(sys.argv[1]), 16
first, second, out = (torch.randn(N, N, device="cuda", dtype=torch.bfloat16) for _ in range(3))
torch.cuda.synchronize()

for line in sys.stdin:
    events = [torch.cuda.Event() for _ in range(2)]
    begin = now = time.perf_counter_ns()
    until, rounds = begin + int(float(line.split()[1]) * 1e9), []
    while now < until:
        for _ in range(DEPTH):
            torch.mm(first, second, out=out)
        events[len(rounds) % 2].record()
        if rounds:
            events[(len(rounds) + 1) % 2].synchronize()
        before, now = now, time.perf_counter_ns()
        rounds.append(now - before)
    torch.cuda.synchronize()
    wall = time.perf_counter_ns() - begin
    rounds.sort()
    print(len(rounds) * DEPTH, wall, 0, rounds[len(rounds) // 2], rounds[len(rounds) * 99 // 100], rounds[-1],
          flush=True)
