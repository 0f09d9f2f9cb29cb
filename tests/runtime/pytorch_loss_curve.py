"""The loss curve of muster-train beside PyTorch's, step by step.

    python3 pytorch_loss_curve.py MUSTER_TRAIN

Both start from the same weights and see the same batches; the order of samples, the model and the
optimizer are written here a second time, from their descriptions. Ends with 1 when the losses of
any step differ by more than LIMIT of their value, with 77 (skipped) when PyTorch is missing.
"""
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print("skipped: no python3-torch")
    sys.exit(77)

LIMIT = 1e-4
LAYERS, WIDTH, HEADS, CONTEXT, BATCH, STEPS, SEED = 2, 32, 4, 32, 8, 50, 5
LR, WARMUP, DECAY_STEPS, DECAY, CLIP = 3e-3, 10, 30, 0.1, 1.0
MASK = 0xFFFFFFFF
SAMPLE_ORDER = 2  # the purpose of these random numbers


def philox(counter, key):
    """Philox4x32-10 of Salmon et al., 2011."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & MASK, (a >> 32) ^ c[3] ^ k[1], a & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def window_of(sample, windows):
    """Feistel network of four rounds over the next power of four, walked into range."""
    bits = ((windows - 1).bit_length() + 1) // 2
    value, epoch = sample % windows, sample // windows
    while True:
        left, right = value >> bits, value & ((1 << bits) - 1)
        for turn in range(4):
            index = right << 2 | turn
            word = philox([index & MASK, index >> 32, epoch, SAMPLE_ORDER], [SEED, 0])[0]
            left, right = right, left ^ (word & ((1 << bits) - 1))
        value = left << bits | right
        if value < windows:
            return value


def learning_rate(step):
    if step <= WARMUP:
        return LR * step / WARMUP
    done = min(1.0, (step - WARMUP) / DECAY_STEPS)
    return LR * (0.1 + 0.9 * (1 + math.cos(math.pi * done)) / 2)


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            lo, hi = (8 + length + offset for offset in entry["data_offsets"])
            values = torch.frombuffer(bytearray(data[lo:hi]), dtype=torch.float32)
            tensors[name] = values.reshape(entry["shape"]).clone().requires_grad_()
    return tensors


def loss_of(w, tokens):
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    norm = lambda x, at: F.layer_norm(x, (WIDTH,), w[at + ".weight"], w[at + ".bias"])
    linear = lambda x, at: x @ w[at + ".weight"] + w[at + ".bias"]
    heads = lambda x: x.view(len(x), CONTEXT, HEADS, WIDTH // HEADS).transpose(1, 2)
    future = torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).triu(1)
    x = w["wte.weight"][inputs] + w["wpe.weight"]
    for layer in range(LAYERS):
        at = f"h.{layer}."
        q, k, v = map(heads, linear(norm(x, at + "ln_1"), at + "attn.c_attn").split(WIDTH, 2))
        scores = q @ k.transpose(-2, -1) / math.sqrt(WIDTH // HEADS)
        attended = scores.masked_fill(future, -math.inf).softmax(-1) @ v
        x = x + linear(attended.transpose(1, 2).reshape(x.shape), at + "attn.c_proj")
        hidden = linear(norm(x, at + "ln_2"), at + "mlp.c_fc")
        x = x + linear(F.gelu(hidden, approximate="tanh"), at + "mlp.c_proj")
    logits = norm(x, "ln_f") @ w["wte.weight"].T
    return F.cross_entropy(logits.reshape(-1, 256), targets.reshape(-1))


def pytorch_losses(weights, corpus):
    matrices = [p for p in weights.values() if p.dim() > 1]
    others = [p for p in weights.values() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.95), eps=1e-8)
    windows = (len(corpus) - 1) // CONTEXT
    losses = []
    for step in range(STEPS):
        rows = []
        for sample in range(step * BATCH, (step + 1) * BATCH):
            first = window_of(sample, windows) * CONTEXT
            rows.append(list(corpus[first : first + CONTEXT + 1]))
        loss = loss_of(weights, torch.tensor(rows))
        adamw.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), CLIP)
        for group in adamw.param_groups:
            group["lr"] = learning_rate(step + 1)
        adamw.step()
        losses.append(loss.item())
    return losses


def muster_train(program, folder, text, steps):
    options = dict(layers=LAYERS, width=WIDTH, heads=HEADS, context=CONTEXT, batch=BATCH, seed=SEED)
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
        corpus = text.read_bytes() + b"\0"
        start = muster_train(sys.argv[1], folder / "start", text, 0)
        run = muster_train(sys.argv[1], folder / "run", text, STEPS)
        ours = [json.loads(line)["loss"] for line in open(run / "metrics.jsonl")]
        theirs = pytorch_losses(read_safetensors(start / "model.safetensors"), corpus)
    apart = [abs(a - b) / b for a, b in zip(ours, theirs)]
    print(f"{len(ours)} steps, loss {ours[0]:.4f} to {ours[-1]:.4f}, PyTorch {theirs[-1]:.4f}")
    print(f"largest relative difference {max(apart):.2e} at step {apart.index(max(apart)) + 1}")
    return 0 if len(ours) == len(theirs) == STEPS and max(apart) < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
