"""The GPT of muster-train written a second time, in PyTorch, from the descriptions of its parts.

What comparisons with muster-train need: the order of samples, the weights of a model.safetensors,
and the model as a PyTorch user would write it (nn.Linear, one product for query, key and value, no
fused attention), with its optimizer.
"""
import json
import math
import pathlib
import struct
import typing

import torch
import torch.nn.functional as F
from torch import nn

MASK = 0xFFFFFFFF
SAMPLE_ORDER = 2  # the purpose of these random numbers


class Shape(typing.NamedTuple):
    layers: int
    width: int
    heads: int
    context: int
    vocabulary: int


def philox(counter, key):
    """Philox4x32-10 of Salmon et al., 2011."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & MASK, (a >> 32) ^ c[3] ^ k[1], a & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def window_of(sample, windows, seed):
    """Feistel network of four rounds over the next power of four, walked into range."""
    bits = ((windows - 1).bit_length() + 1) // 2
    value, epoch = sample % windows, sample // windows
    while True:
        left, right = value >> bits, value & ((1 << bits) - 1)
        for turn in range(4):
            index = right << 2 | turn
            counter = [index & MASK, index >> 32, epoch, SAMPLE_ORDER]
            word = philox(counter, [seed & MASK, seed >> 32])[0]
            left, right = right, left ^ (word & ((1 << bits) - 1))
        value = left << bits | right
        if value < windows:
            return value


def batch_of(corpus, samples, context, seed):
    """The tokens of these samples as a tensor of context + 1 columns; corpus: a tensor of bytes."""
    windows = (len(corpus) - 1) // context
    starts = [window_of(sample, windows, seed) * context for sample in samples]
    return torch.stack([corpus[at : at + context + 1] for at in starts]).long()


def read_corpus(path):
    """A text file as muster-train reads it: its bytes, then a zero."""
    return torch.frombuffer(bytearray(pathlib.Path(path).read_bytes() + b"\0"), dtype=torch.uint8)


def read_safetensors(path):
    data = bytearray(pathlib.Path(path).read_bytes())
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            lo, hi = (8 + length + offset for offset in entry["data_offsets"])
            values = torch.frombuffer(data, dtype=torch.float32, count=(hi - lo) // 4, offset=lo)
            tensors[name] = values.reshape(entry["shape"])
    return tensors


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        width = shape.width
        self.shape = shape
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.ModuleDict(
            {"c_attn": nn.Linear(width, 3 * width), "c_proj": nn.Linear(width, width)}
        )
        self.mlp = nn.ModuleDict(
            {"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)}
        )

    def attention(self, x, future):
        batch, context, width = x.shape
        head = width // self.shape.heads
        parts = self.attn["c_attn"](x).split(width, 2)
        q, k, v = (p.view(batch, context, -1, head).transpose(1, 2) for p in parts)
        scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(head))
        attended = scores.masked_fill(future, -math.inf).softmax(-1) @ v
        return self.attn["c_proj"](attended.transpose(1, 2).reshape(batch, context, width))

    def forward(self, x, future):
        x = x + self.attention(self.ln_1(x), future)
        hidden = F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh")
        return x + self.mlp["c_proj"](hidden)


class Gpt(nn.Module):
    """Called with inputs and targets, B x T each: the mean loss."""

    def __init__(self, shape, weights):
        super().__init__()
        self.wte = nn.Embedding(shape.vocabulary, shape.width)
        self.wpe = nn.Embedding(shape.context, shape.width)
        self.h = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.ln_f = nn.LayerNorm(shape.width)
        # No buffer: gloo cannot broadcast truth values.
        self.future = torch.ones(shape.context, shape.context, dtype=torch.bool).triu(1)
        self.load(weights)

    def load(self, weights):
        """The file holds linear weights as [in, out], nn.Linear as [out, in]."""
        linear = {f"{name}.weight" for name, m in self.named_modules() if type(m) is nn.Linear}
        names = {name for name, _ in self.named_parameters()}
        if names != set(weights):
            raise ValueError(f"the weights differ in names: {sorted(names ^ set(weights))}")
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                parameter.copy_(weights[name].T if name in linear else weights[name])

    def forward(self, inputs, targets):
        x = self.wte(inputs) + self.wpe.weight
        for block in self.h:
            x = block(x, self.future)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def adamw_of(model, lr, decay):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), eps=1e-8, foreach=True)
