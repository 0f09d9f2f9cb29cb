"""The loss curve of muster-train beside PyTorch's, step by step.

    python3 pytorch_loss_curve.py [--shape-s] MUSTER_TRAIN      a tiny model; S and 200 steps

Both start from the same weights and see the same batches; the order of samples, the model and the
optimizer are written a second time (pytorch_gpt.py), from their descriptions. Ends with 1 when the
losses of any step differ by more than LIMIT of their value, with 77 (skipped) when PyTorch is
missing.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import typing

try:
    import torch
except ImportError:
    print("skipped: no python3-torch")
    sys.exit(77)

from pytorch_gpt import Gpt, Shape, adamw_of, batch_of, read_corpus, read_safetensors

LIMIT = 1e-4
TINY = Shape(layers=2, width=32, heads=4, context=32, vocabulary=256)
S = Shape(layers=4, width=256, heads=4, context=128, vocabulary=256)
BATCH, SEED = 8, 5
WARMUP, DECAY, CLIP = 10, 0.1, 1.0


class Case(typing.NamedTuple):
    shape: Shape
    steps: int
    lr: float
    decay_steps: int


def learning_rate(case, step):
    if step <= WARMUP:
        return case.lr * step / WARMUP
    done = min(1.0, (step - WARMUP) / case.decay_steps)
    return case.lr * (0.1 + 0.9 * (1 + math.cos(math.pi * done)) / 2)


def pytorch_losses(case, model, corpus):
    adamw = adamw_of(model, case.lr, DECAY)
    losses = []
    for step in range(case.steps):
        samples = range(step * BATCH, (step + 1) * BATCH)
        tokens = batch_of(corpus, samples, case.shape.context, SEED)
        loss = model(tokens[:, :-1], tokens[:, 1:])
        adamw.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        for group in adamw.param_groups:
            group["lr"] = learning_rate(case, step + 1)
        adamw.step()
        losses.append(loss.item())
    return losses


def muster_train(case, program, folder, text, steps):
    options = dict(case.shape._asdict(), batch=BATCH, seed=SEED)
    options.update({"lr": case.lr, "warmup": WARMUP, "decay-steps": case.decay_steps})
    options["weight-decay"] = DECAY
    options.update({"clip": CLIP, "data": text, "out": folder, "steps": steps, "log-every": 1})
    command = [program]
    for name, value in options.items():
        command += ["--" + name, str(value)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--shape-s", action="store_true")
    arguments.add_argument("program")
    asked = arguments.parse_args()
    case = Case(S, 200, 3e-4, 150) if asked.shape_s else Case(TINY, 50, 3e-3, 30)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        text = folder / "text"
        lines = (f"{i}: {i * i} is the square of {i}\n" for i in range(2000))
        text.write_text("".join(lines))
        start = muster_train(case, asked.program, folder / "start", text, 0)
        run = muster_train(case, asked.program, folder / "run", text, case.steps)
        ours = [json.loads(line)["loss"] for line in open(run / "metrics.jsonl")]
        model = Gpt(case.shape, read_safetensors(start / "model.safetensors"))
        theirs = pytorch_losses(case, model, read_corpus(text))
    apart = [abs(a - b) / b for a, b in zip(ours, theirs)]
    print(f"{len(ours)} steps, loss {ours[0]:.4f} to {ours[-1]:.4f}, PyTorch {theirs[-1]:.4f}")
    print(f"largest relative difference {max(apart):.2e} at step {apart.index(max(apart)) + 1}")
    return 0 if len(ours) == len(theirs) == case.steps and max(apart) < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
