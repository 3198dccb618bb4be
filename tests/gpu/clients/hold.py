"""A framework's libraries loaded and used, and what they hold kept until the input ends.

  hold.py FRAMEWORK ...    torch, jax, nccl; each in a process of its own

A process says "ready" and its pid. NCCL may be there several times, with a rank on a GPU for each.
"""
import os
import subprocess
import sys


def use_torch():
    import torch

    model = torch.nn.Sequential(torch.nn.Conv2d(8, 64, 3), torch.nn.ReLU(), torch.nn.Conv2d(64, 64, 3)).cuda()
    model(torch.randn(16, 8, 128, 128, device="cuda")).sum().backward()
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    held = (model, a @ a, torch.linalg.qr(torch.randn(512, 512, device="cuda")),
            torch.fft.rfft(torch.randn(1 << 20, device="cuda")))
    torch.cuda.synchronize()
    return held


def use_jax():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import jax.numpy as jnp

    a = jax.random.normal(jax.random.PRNGKey(1), (4096, 4096))
    return jax.jit(lambda x: jnp.tanh(x @ x) @ x)(a).block_until_ready()


def all_reduce(rank, ranks, port):
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    held = torch.ones(64 << 20, device="cuda")
    for _ in range(3):
        dist.all_reduce(held)
    torch.cuda.synchronize()
    return held


def use_nccl():
    return all_reduce(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), 29611)


def hold(name):
    kept = {"torch": use_torch, "jax": use_jax, "nccl": use_nccl}[name]()
    print("ready", os.getpid(), flush=True)
    sys.stdin.read()
    del kept


def hold_all(names):
    ranks, children = 0, []
    for name in names:
        env = {**os.environ, "RANK": str(ranks), "WORLD_SIZE": str(names.count("nccl"))}
        ranks += name == "nccl"
        children.append(subprocess.Popen([sys.executable, __file__, "--one", name], stdin=subprocess.PIPE, env=env))
    sys.stdin.read()
    for child in children:
        child.stdin.close()
    return max(child.wait() for child in children)


if sys.argv[1] == "--one":
    hold(sys.argv[2])
else:
    sys.exit(hold_all(sys.argv[1:]))
