"""Exported weights, read by others: a GPT of PyTorch made from config.json and the safetensors, and
the ONNX graph evaluated by onnx_evaluator.py, give the same logits; ONNX's own checker agrees.

    python3 exported_model.py MUSTER MUSTER_TRAIN

Ends with 77 (skipped) when PyTorch is missing; the checker is left out when it is.
"""
import hashlib
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError:
    print("skipped: no python3-torch")
    sys.exit(77)
try:
    import onnx
    import onnx.checker
except ImportError:
    onnx = None
    print("ONNX's checker is skipped: no python3-onnx")

import onnx_evaluator

LIMIT = 1e-4
SHAPE = dict(layers=2, width=48, heads=3, context=24, vocabulary=300)
SOURCE = pathlib.Path(__file__).parent


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    assert header.pop("__metadata__") == {"format": "pt"}
    tensors, end = {}, 0
    for name, entry in header.items():
        lo, hi = entry["data_offsets"]
        assert lo == end and entry["dtype"] == "F32", name
        end = hi
        values = np.frombuffer(data[8 + length + lo : 8 + length + hi], dtype="<f4")
        tensors[name] = torch.tensor(values.reshape(entry["shape"]), dtype=torch.float64)
    assert 8 + length + end == len(data), "bytes without a tensor"
    return tensors


def read_weights(folder):
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return read_safetensors(folder / "model.safetensors")
    described = json.loads(index.read_text())
    weights = {}
    for file in sorted(set(described["weight_map"].values())):
        weights.update(read_safetensors(folder / file))
    assert {n: described["weight_map"][n] for n in weights} == described["weight_map"]
    assert described["metadata"]["total_size"] == sum(4 * w.numel() for w in weights.values())
    return weights


def logits_of(folder, tokens):
    """GPT-2 as transformers computes it, from what it would load."""
    config, w = json.loads((folder / "config.json").read_text()), read_weights(folder)
    assert config["model_type"] == "gpt2" and config["activation_function"] == "gelu_new"
    assert config["architectures"] == ["GPT2LMHeadModel"]
    width, heads = config["n_embd"], config["n_head"]
    at_all = "transformer."
    norm = lambda x, at: F.layer_norm(
        x, (width,), w[at_all + at + ".weight"], w[at_all + at + ".bias"],
        config["layer_norm_epsilon"])
    linear = lambda x, at: x @ w[at_all + at + ".weight"] + w[at_all + at + ".bias"]
    batch, length = tokens.shape
    head_of = lambda x: x.view(batch, length, heads, width // heads).transpose(1, 2)
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    assert w[at_all + "wte.weight"].shape == (config["vocab_size"], width)
    assert w[at_all + "wpe.weight"].shape[0] == config["n_positions"] == config["n_ctx"]
    x = w[at_all + "wte.weight"][tokens] + w[at_all + "wpe.weight"][:length]
    for layer in range(config["n_layer"]):
        at = f"h.{layer}."
        q, k, v = map(head_of, linear(norm(x, at + "ln_1"), at + "attn.c_attn").split(width, 2))
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // heads)
        attended = scores.masked_fill(future, -math.inf).softmax(-1) @ v
        x = x + linear(attended.transpose(1, 2).reshape(x.shape), at + "attn.c_proj")
        hidden = linear(norm(x, at + "ln_2"), at + "mlp.c_fc")
        x = x + linear(F.gelu(hidden, approximate="tanh"), at + "mlp.c_proj")
    tied = config["tie_word_embeddings"]
    assert tied == ("lm_head.weight" not in w)
    head = w[at_all + "wte.weight"] if tied else w["lm_head.weight"]
    return (norm(x, "ln_f") @ head.T).numpy()


def run(*command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
    return result.stdout


def train(program, folder, extra):
    options = [f for name, value in SHAPE.items() for f in ("--" + name, value)]
    options += ["--data", SOURCE, "--steps", 6, "--batch", 4, "--lr", 0.02, "--warmup", 1]
    run(program, *options, *extra, "--out", folder / "out", "--checkpoint-dir", folder / "ckpt")
    return folder / "ckpt"


def check_sums(folder):
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    named = {line.split("  ")[1] for line in lines}
    assert named == {p.name for p in folder.iterdir()} - {"SHA256SUMS"}
    for line in lines:
        digest, name = line.split("  ")
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name


def same(name, ours, theirs):
    apart = np.abs(ours - theirs).max() / np.abs(theirs).max()
    print(f"{name}: logits {ours.shape}, largest difference {apart:.1e} of the largest")
    assert ours.shape == theirs.shape and apart < LIMIT and np.abs(theirs).max() > 0.1


def check_model(muster, trainer, folder, extra):
    folder.mkdir()
    checkpoints = train(trainer, folder, extra)
    export = lambda to, *options: run(
        muster, "checkpoint", "export", checkpoints, "--out", folder / to, *options)
    export("one", "--sha256")
    export("many", "--shard-size", "40KB", "--sha256")
    export("graph", "--format", "onnx", "--sha256")
    export("apart", "--format", "onnx", "--external-data", "--sha256")
    for name in ("one", "many", "graph", "apart"):
        check_sums(folder / name)
    assert len(list((folder / "many").glob("model-*-of-*.safetensors"))) > 3
    assert (folder / "apart/model.onnx").stat().st_size < 30000
    random = np.random.default_rng(3)
    for batch, length in ((1, 1), (2, 24), (3, 7)):
        tokens = random.integers(0, SHAPE["vocabulary"], (batch, length))
        wanted = logits_of(folder / "one", torch.tensor(tokens))
        assert (wanted == logits_of(folder / "many", torch.tensor(tokens))).all()
        for name in ("graph", "apart"):
            same(name, onnx_evaluator.evaluate(folder / name / "model.onnx", tokens), wanted)
    if onnx is not None:
        for name in ("graph", "apart"):
            path = folder / name / "model.onnx"
            onnx.checker.check_model(str(path), full_check=True)
            inferred = onnx.shape_inference.infer_shapes(onnx.load(str(path)))
            assert len(inferred.graph.value_info) > 0


def main():
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as name:
        for kind, extra in (("tied", []), ("untied", ["--untied"])):
            print(kind)
            check_model(sys.argv[1], sys.argv[2], pathlib.Path(name) / kind, extra)
    return 0


if __name__ == "__main__":
    sys.exit(main())
