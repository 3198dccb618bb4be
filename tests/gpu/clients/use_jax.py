"""JAX: results that must not change under a limit."""
import os
import sys

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import jax
import jax.numpy as jnp
import numpy as np

a = jax.random.normal(jax.random.PRNGKey(1), (1024, 1024), dtype=jnp.float32)
b = jax.random.normal(jax.random.PRNGKey(2), (1024, 1024), dtype=jnp.float32)
print("device", jax.devices()[0].platform)
print("matmul", float(np.asarray(jax.jit(jnp.matmul)(a, b)).astype(np.float64).sum()).hex())
print("grad", float(jax.grad(lambda x: (x @ b).sum())(a).astype(jnp.float32)[3, 5]).hex())
if len(sys.argv) > 1:
    limit = int(sys.argv[1])
    held = []
    try:
        while True:
            held.append(jnp.zeros((256 << 20,), dtype=jnp.uint8).block_until_ready())
    except Exception as error:  # jaxlib has a type of its own for each version
        assert "RESOURCE_EXHAUSTED" in str(error), error
    got = len(held) * (256 << 20)
    assert limit // 2 < got < limit, (got, limit)
    print("refused after", got >> 20, "MiB", file=sys.stderr)
