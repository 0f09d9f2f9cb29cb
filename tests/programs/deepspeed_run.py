"""DeepSpeed's engine on processors, begun by its own launcher; goes on from its newest checkpoint.

deepspeed_run.py FOLDER STEPS resume
"""
import os
import sys
import time

import deepspeed
import torch

arguments = [word for word in sys.argv[1:] if not word.startswith("--local_rank")]
folder, steps = arguments[0], int(arguments[1])
deepspeed.init_distributed(dist_backend="gloo")
rank = torch.distributed.get_rank()
torch.manual_seed(1)
config = {
    "train_micro_batch_size_per_gpu": 16,
    "gradient_accumulation_steps": 1,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "torch_adam": True}},
    "zero_optimization": {"stage": 2},
}
net = torch.nn.Linear(8, 4)
engine, _, _, _ = deepspeed.initialize(model=net, model_parameters=net.parameters(), config=config)
first = 0
if os.path.exists(os.path.join(folder, "latest")):
    _, client = engine.load_checkpoint(folder)
    first = client["step"]
for step in range(first + 1, steps + 1):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    loss = engine(torch.randn(16, 8, generator=generator)).square().mean()
    engine.backward(loss)
    engine.step()
    time.sleep(0.02)
    if step % 5 == 0:
        engine.save_checkpoint(folder, tag=f"step{step}", client_state={"step": step})
    if rank == 0:
        print("step", step, flush=True)
if rank == 0:
    weights = torch.cat([p.flatten() for p in net.parameters()])
    print("weights", weights.sum().item().hex(), weights.abs().max().item().hex(), flush=True)
