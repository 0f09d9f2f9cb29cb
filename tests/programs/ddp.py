"""A small data-parallel training that has never heard of muster: torch.save, its own resume.

ddp.py FOLDER STEPS HOW       HOW: resume, elastic (the same, of one global batch whatever the
                              number of ranks), never-save, start-over
"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

folder, steps, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
os.makedirs(folder, exist_ok=True)
newest = os.path.join(folder, "ckpt.pt")
save_every = int(os.environ.get("SAVE_EVERY", "5"))
resumes = how in ("resume", "elastic")
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(1)
if rank == 0:
    print("world", dist.get_world_size(), "of", os.environ.get("MUSTER_WORLD_SIZE_MAX"), flush=True)
net = DistributedDataParallel(torch.nn.Linear(8, 4))
optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
first = 0
if resumes and os.path.exists(newest):
    saved = torch.load(newest)
    net.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["step"]
for step in range(first + 1, steps + 1):
    generator = torch.Generator().manual_seed(1000 * step + (0 if how == "elastic" else rank))
    batch = torch.randn(48 if how == "elastic" else 16, 8, generator=generator)
    wanted = torch.zeros(len(batch), 4)
    if how == "elastic":  # noise: at its end the weights are those of the latest steps
        wanted = torch.randn(len(batch), 4, generator=generator)
        batch, wanted = (all.chunk(dist.get_world_size())[rank] for all in (batch, wanted))
    loss = (net(batch) - wanted).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.02)
    if step % save_every == 0 and rank == 0 and how != "never-save":
        state = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        name = newest if resumes else os.path.join(folder, f"ckpt_{step}.pt")
        torch.save(state, name + ".part")
        os.replace(name + ".part", name)
    dist.barrier()
    if rank == 0:
        print("step", step, flush=True)
        if "TIMES" in os.environ:
            with open(os.environ["TIMES"], "a") as times:
                print(time.time(), dist.get_world_size(), step, file=times)
if rank == 0:
    weights = torch.cat([p.flatten() for p in net.parameters()])
    print("loss", loss.item())
    print("weights", weights.sum().item().hex(), weights.abs().max().item().hex(), flush=True)
