"""Data-parallel training with torch.distributed on CPUs: a rank of muster, in Python.

Started once for each rank, by configs/pytorch-ddp.yml. The same seed gives the same losses at every
run, also when a rank is killed on the way: rank 0 writes a checkpoint every few steps and every
attempt begins with the newest one.
"""

import argparse
import json
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

CHECKPOINT_EVERY = 5
BATCH = 32  # samples of each rank and step


def make_model():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)
    )


def batch_of(step, rank):
    """Samples that depend on the step and the rank only, so that a resumed run sees the same."""
    generator = torch.Generator().manual_seed(step * 1000 + rank)
    x = torch.randn(BATCH, 16, generator=generator)
    return x, x.sin().sum(dim=1, keepdim=True)


def load(path, rank):
    """The state that rank 0 finds, on every rank: its directory need not be shared."""
    found = [None]
    if rank == 0 and os.path.exists(path):
        found[0] = torch.load(path)
    dist.broadcast_object_list(found, src=0)
    return found[0]


def save(path, state):
    """Whole or not at all: a kill in the middle leaves the old checkpoint."""
    torch.save(state, path + ".new")
    with open(path + ".new", "rb") as file:
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def tell_muster(step, loss):
    """The step as a sign of life, and a line of metrics for `muster status --watch`."""
    heartbeat = os.environ.get("MUSTER_HEARTBEAT")
    if heartbeat:
        with open(heartbeat, "w") as file:
            file.write(f"{step}\n")
    metrics = os.environ.get("MUSTER_METRICS")
    if metrics and loss is not None:
        with open(metrics, "a") as file:
            file.write(json.dumps({"step": step, "loss": loss}) + "\n")


def train(arguments):
    rank = dist.get_rank()
    world = dist.get_world_size()
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.learning_rate, momentum=0.9)
    first = 0

    path = os.path.join(os.environ.get("MUSTER_CHECKPOINT_DIR", "."), "ddp.pt")
    state = load(path, rank)
    if state is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
        if rank == 0:
            print(f"continues after step {first}", flush=True)

    parallel = DistributedDataParallel(model)
    for step in range(first, arguments.steps):
        x, y = batch_of(step, rank)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(parallel(x), y)
        loss.backward()
        optimizer.step()

        mean = loss.detach().clone()
        dist.all_reduce(mean)
        mean = mean.item() / world
        if rank == 0:
            print(f"step {step + 1} of {arguments.steps}: loss {mean:.6f}", flush=True)
        tell_muster(step + 1, mean if rank == 0 else None)
        if rank == 0 and (step + 1) % CHECKPOINT_EVERY == 0:
            save(path, {"step": step + 1, "model": model.state_dict(),
                        "optimizer": optimizer.state_dict()})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--learning-rate", type=float, default=0.02)
    arguments = parser.parse_args()

    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="env://")
    train(arguments)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
