"""PyTorch: a small transformer learns for 200 steps, deterministically; prints every loss to the bit.

What it holds is large enough to be worth moving: some 3 GiB of weights, their gradients and the
optimiser's state. `step N LOSS` after each step, `reserved BYTES` at the end.
"""
import os
import sys

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import torch  # noqa: E402  the line above has to come first
from torch import nn  # noqa: E402

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
WORDS, WIDTH, LENGTH, BATCH = 8192, 1024, 256, 16

torch.use_deterministic_algorithms(True)
torch.manual_seed(7)
layer = nn.TransformerEncoderLayer(WIDTH, 16, 4 * WIDTH, dropout=0.0, batch_first=True)
model = nn.Sequential(nn.Embedding(WORDS, WIDTH), nn.TransformerEncoder(layer, 12, enable_nested_tensor=False),
                      nn.Linear(WIDTH, WORDS)).cuda()
optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
source = torch.Generator(device="cuda").manual_seed(11)
for step in range(1, STEPS + 1):
    words = torch.randint(WORDS, (BATCH, LENGTH + 1), device="cuda", generator=source)
    said = model(words[:, :-1])
    loss = nn.functional.cross_entropy(said.reshape(-1, WORDS), words[:, 1:].reshape(-1))
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    print("step", step, loss.item().hex(), flush=True)
print("reserved", torch.cuda.max_memory_reserved())
