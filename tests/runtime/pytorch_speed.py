"""How fast PyTorch trains the GPT of muster-train on CPUs, for scripts/bench-tokens.

    [RANK=r WORLD_SIZE=n] python3 pytorch_speed.py --weights FILE --data FILE --layers N …

One process, or one of n that share each batch (DistributedDataParallel over gloo, which meet in
the file --meet). A step is batch, forward, backward, clipping, update. Rank 0 prints

    step_ms M       the median of the steps after the warm-up
    steps N         all steps, those of the warm-up too
    losses L …      the mean loss of each of the first steps, before its update
    library TEXT    what computes
"""
import argparse
import contextlib
import ctypes
import os
import re
import statistics
import sys
import time

import torch
import torch.distributed as dist

from pytorch_gpt import Gpt, Shape, adamw_of, batch_of, read_corpus, read_safetensors

LOSSES = 20  # of so many steps are printed
LOOPBACK = "lo"


def options():
    parser = argparse.ArgumentParser()
    for name in Shape._fields:
        parser.add_argument("--" + name, type=int, required=True)
    for name in ("weights", "data"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--meet")
    parser.add_argument("--precision", choices=("fp32", "bf16"), required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--exact-norm", action="store_true", help="add squares up in fp64")
    parser.add_argument("--warm-up", type=int, default=5, help="steps before the clock counts")
    parser.add_argument("--seconds", type=float, default=8.0, help="least time on the clock")
    parser.add_argument("--least-steps", type=int, default=20)
    return parser.parse_args()


def blas_in_use():
    """Path and kernels of the BLAS that is loaded into this process."""
    with open("/proc/self/maps") as maps:
        paths = set(re.findall(r"\S*/lib(?:open)?blas\S*\.so\S*", maps.read()))
    for path in sorted(paths):
        if "libopenblas" in path:
            name = ctypes.CDLL(path).openblas_get_corename
            name.restype = ctypes.c_char_p
            return f"{path} {name().decode()}"
    sys.exit(f"PyTorch does not compute with OpenBLAS but with {' '.join(sorted(paths))}")


def capability():
    return re.search(r"CPU capability usage: (\S+)", torch.__config__.show()).group(1)


class Trainer:
    def __init__(self, options, rank, world):
        self.options, self.rank, self.world = options, rank, world
        shape = Shape(*(getattr(options, name) for name in Shape._fields))
        self.gpt = Gpt(shape, read_safetensors(options.weights))
        self.corpus = read_corpus(options.data)
        self.adamw = adamw_of(self.gpt, options.lr, options.weight_decay)
        self.model = self.gpt
        if world > 1:
            self.model = torch.nn.parallel.DistributedDataParallel(self.gpt)
        self.losses = []

    def batches(self, first, last):
        """The rows of this rank, of steps first … last - 1."""
        batch = self.options.batch
        rows = batch // self.world
        result = []
        for step in range(first, last):
            lo = step * batch + self.rank * rows
            tokens = batch_of(
                self.corpus, range(lo, lo + rows), self.options.context, self.options.seed
            )
            result.append((tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()))
        return result

    def step(self, inputs, targets):
        mixed = self.options.precision == "bf16"
        with torch.autocast("cpu", torch.bfloat16) if mixed else contextlib.nullcontext():
            loss = self.model(inputs, targets)
        self.adamw.zero_grad(set_to_none=True)
        loss.backward()
        self.clip_gradient()
        self.adamw.step()
        self.losses.append(loss.detach())

    # In fp32 PyTorch's norm of a tensor of 4e7 elements is off by 1e-3, which moves the losses.
    def clip_gradient(self):
        parameters = list(self.gpt.parameters())
        if not self.options.exact_norm:
            torch.nn.utils.clip_grad_norm_(parameters, self.options.clip)
            return
        norm = sum(p.grad.double().square().sum() for p in parameters).sqrt()
        scale = min(1.0, self.options.clip / (norm.item() + 1e-6))
        for parameter in parameters:
            parameter.grad.mul_(scale)

    def timed(self, batches):
        """Milliseconds of each step."""
        times = []
        for batch in batches:
            begun = time.perf_counter()
            self.step(*batch)
            times.append((time.perf_counter() - begun) * 1000)
        return times

    def steps_for(self, step_ms):
        """How many steps fill the time: rank 0 decides for all."""
        count = max(self.options.least_steps, int(self.options.seconds * 1000 / step_ms) + 1)
        agreed = torch.tensor([count])
        if self.world > 1:
            dist.broadcast(agreed, 0)
        return int(agreed)

    def mean_losses(self):
        losses = torch.stack(self.losses[:LOSSES]).double()
        if self.world > 1:
            dist.all_reduce(losses)
        return (losses / self.world).tolist()


def main():
    asked = options()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    library = f"torch {torch.__version__} {capability()}, {blas_in_use()}"
    if world > 1:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", LOOPBACK)
        meet = "file://" + os.path.abspath(asked.meet)
        dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=world)
    trainer = Trainer(asked, rank, world)
    warm = trainer.timed(trainer.batches(0, asked.warm_up))
    steps = asked.warm_up + trainer.steps_for(statistics.median(warm))
    times = trainer.timed(trainer.batches(asked.warm_up, steps))
    losses = trainer.mean_losses()
    if rank == 0:
        print("step_ms", statistics.median(times))
        print("steps", steps)
        print("losses", *losses)
        print("library", library)


if __name__ == "__main__":
    main()
