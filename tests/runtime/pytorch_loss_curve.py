"""The loss curve of muster-train beside PyTorch's, step by step.

    python3 pytorch_loss_curve.py MUSTER_TRAIN

Both start from the same weights and see the same batches; the order of samples, the model and the
optimizer are written a second time (pytorch_gpt.py), from their descriptions. Ends with 1 when the
losses of any step differ by more than LIMIT of their value, with 77 (skipped) when PyTorch is
missing.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    print("skipped: no python3-torch")
    sys.exit(77)

from pytorch_gpt import Gpt, Shape, adamw_of, batch_of, read_corpus, read_safetensors

LIMIT = 1e-4
SHAPE = Shape(layers=2, width=32, heads=4, context=32, vocabulary=256)
BATCH, STEPS, SEED = 8, 50, 5
LR, WARMUP, DECAY_STEPS, DECAY, CLIP = 3e-3, 10, 30, 0.1, 1.0


def learning_rate(step):
    if step <= WARMUP:
        return LR * step / WARMUP
    done = min(1.0, (step - WARMUP) / DECAY_STEPS)
    return LR * (0.1 + 0.9 * (1 + math.cos(math.pi * done)) / 2)


def pytorch_losses(model, corpus):
    adamw = adamw_of(model, LR, DECAY)
    losses = []
    for step in range(STEPS):
        samples = range(step * BATCH, (step + 1) * BATCH)
        tokens = batch_of(corpus, samples, SHAPE.context, SEED)
        loss = model(tokens[:, :-1], tokens[:, 1:])
        adamw.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        for group in adamw.param_groups:
            group["lr"] = learning_rate(step + 1)
        adamw.step()
        losses.append(loss.item())
    return losses


def muster_train(program, folder, text, steps):
    options = dict(SHAPE._asdict(), batch=BATCH, seed=SEED)
    options.update({"lr": LR, "warmup": WARMUP, "decay-steps": DECAY_STEPS, "weight-decay": DECAY})
    options.update({"clip": CLIP, "data": text, "out": folder, "steps": steps, "log-every": 1})
    command = [program]
    for name, value in options.items():
        command += ["--" + name, str(value)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        text = folder / "text"
        lines = (f"{i}: {i * i} is the square of {i}\n" for i in range(2000))
        text.write_text("".join(lines))
        start = muster_train(sys.argv[1], folder / "start", text, 0)
        run = muster_train(sys.argv[1], folder / "run", text, STEPS)
        ours = [json.loads(line)["loss"] for line in open(run / "metrics.jsonl")]
        model = Gpt(SHAPE, read_safetensors(start / "model.safetensors"))
        theirs = pytorch_losses(model, read_corpus(text))
    apart = [abs(a - b) / b for a, b in zip(ours, theirs)]
    print(f"{len(ours)} steps, loss {ours[0]:.4f} to {ours[-1]:.4f}, PyTorch {theirs[-1]:.4f}")
    print(f"largest relative difference {max(apart):.2e} at step {apart.index(max(apart)) + 1}")
    return 0 if len(ours) == len(theirs) == STEPS and max(apart) < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
