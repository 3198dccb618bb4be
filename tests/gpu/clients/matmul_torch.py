"""PyTorch: bf16 products of two n x n matrices, 16 in flight, as bench/share keeps the GPU busy.

  matmul_torch.py N [--trace]

Reads lines "run SECONDS" and answers each with bench/share's line: launches, ns of the window, ns in which a
kernel ran, and the median, the 99th percentile and the longest of what 16 of them took. With --trace a piece more
is traced by the driver (CUPTI), which says by the GPU's clock how long a launch keeps it busy, pauses of less than
2 us to the next with it; else those are 0 ns.
"""
import sys
import time

import torch
from torch.profiler import ProfilerActivity, profile

N, DEPTH, PAUSE_NS, TRACED_S = int(sys.argv[1]), 16, 2000, 0.3
first, second, out = (torch.randn(N, N, device="cuda", dtype=torch.bfloat16) for _ in range(3))
torch.cuda.synchronize()


def busy_ns(trace):
    kernels = sorted((e.start_ns(), e.start_ns() + e.duration_ns()) for e in trace.profiler.kineto_results.events()
                     if e.device_type() == torch.autograd.DeviceType.CUDA)
    busy, end = 0, kernels[0][0]
    for begin, until in kernels:
        begin = end if begin < end + PAUSE_NS else begin
        busy, end = busy + max(0, until - begin), max(end, until)
    return busy


def run(seconds):
    """Nanoseconds of all, and of each round."""
    events = [torch.cuda.Event() for _ in range(2)]
    begin = now = time.perf_counter_ns()
    until, rounds = begin + int(seconds * 1e9), []
    while now < until:
        for _ in range(DEPTH):
            torch.mm(first, second, out=out)
        events[len(rounds) % 2].record()
        if rounds:
            events[(len(rounds) + 1) % 2].synchronize()
        before, now = now, time.perf_counter_ns()
        rounds.append(now - before)
    torch.cuda.synchronize()
    return time.perf_counter_ns() - begin, sorted(rounds)


def launch_busy_ns():
    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        rounds = run(TRACED_S)[1]
    return busy_ns(trace) / (len(rounds) * DEPTH)


for line in sys.stdin:
    wall, rounds = run(float(line.split()[1]))
    busy = len(rounds) * DEPTH * launch_busy_ns() if "--trace" in sys.argv else 0
    print(len(rounds) * DEPTH, wall, round(busy), rounds[len(rounds) // 2], rounds[len(rounds) * 99 // 100],
          rounds[-1], flush=True)
