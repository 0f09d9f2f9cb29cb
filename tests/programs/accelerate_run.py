"""A loop with Accelerate, which goes on from what muster names.

accelerate_run.py FOLDER STEPS
"""
import os
import sys
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

folder, steps = sys.argv[1], int(sys.argv[2])
set_seed(1)
accelerator = Accelerator(cpu=True)
net = torch.nn.Linear(16, 4)
net, optimizer = accelerator.prepare(net, torch.optim.AdamW(net.parameters(), lr=0.01))
first = 0
resume = os.environ.get("MUSTER_RESUME_FROM")
if resume:
    accelerator.load_state(resume)
    first = int(resume.rsplit("_", 1)[1])
for step in range(first + 1, steps + 1):
    generator = torch.Generator().manual_seed(1000 * step + accelerator.process_index)
    loss = net(torch.randn(4, 16, generator=generator)).square().mean()
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    time.sleep(0.05)
    if step % 5 == 0:
        accelerator.save_state(os.path.join(folder, f"checkpoint_{step}"))
    accelerator.print("step", step, flush=True)
if accelerator.is_main_process:
    weights = torch.cat([p.detach().flatten() for p in net.parameters()])
    print("weights", weights.sum().item().hex(), weights.abs().max().item().hex(), flush=True)
