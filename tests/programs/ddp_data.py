"""A data-parallel training on the files of a folder: torch.save every 20 steps, its own resume.

ddp_data.py DATA MODEL STEPS      writes MODEL/model.pt; knows of muster its checkpoint directory
"""
import hashlib
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

data, model, steps = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
newest = Path(os.environ["MUSTER_CHECKPOINT_DIR"]) / "ckpt.pt"
features, batch_rows, save_every = 64, 16, 20

files = sorted(data.rglob("*.bin"))
rows = torch.cat([torch.frombuffer(bytearray(file.read_bytes()), dtype=torch.uint8)
                  for file in files]).float().div(255).reshape(-1, features)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
# After its first step DDP orders the gradients anew, and the order in which gloo adds numbers of
# four ranks depends on their place: a resume would compute other bits. Not with this option.
net = DistributedDataParallel(torch.nn.Sequential(
    torch.nn.Linear(features, 128), torch.nn.Tanh(), torch.nn.Linear(128, features)),
    find_unused_parameters=True)
optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
first = 0
if newest.exists():
    saved = torch.load(newest)
    net.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["step"]
if rank == 0:
    print(f"{world} ranks, {len(rows)} rows of {len(files)} files, from step {first}", flush=True)
for step in range(first + 1, steps + 1):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    batch = rows[torch.randint(len(rows), (batch_rows,), generator=generator)]
    loss = (net(batch) - batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.1)
    if step % save_every == 0 and rank == 0:
        newest.parent.mkdir(parents=True, exist_ok=True)
        part = newest.with_suffix(".part")
        torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step},
                   part)
        part.replace(newest)
    dist.barrier()
    if rank == 0:
        print("step", step, "loss", loss.item(), flush=True)
if rank == 0:
    weights = net.module.state_dict()
    model.mkdir(parents=True, exist_ok=True)
    torch.save(weights, model / "model.pt")
    tensors = b"".join(bytes(tensor.flatten().view(torch.uint8).tolist())
                       for tensor in weights.values())
    print("weights", hashlib.sha256(tensors).hexdigest(), flush=True)
