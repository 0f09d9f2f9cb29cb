"""Saves with real libraries, cuts what they wrote, and asks muster which of it is complete.

checkpoint_cuts.py MUSTER FOLDER CUTS [KIND…]; ends with 1 when a cut one was taken or a whole one
was missed.
"""
import importlib
import json
import os
import random
import shutil
import subprocess
import sys
import warnings

warnings.filterwarnings("ignore")
os.environ["CUDA_VISIBLE_DEVICES"] = ""


def model():
    import torch

    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))


def one_rank():
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29577", RANK="0", WORLD_SIZE="1")
    if not dist.is_initialized():
        dist.init_process_group("gloo")


def save_torch(root):
    import torch

    torch.save({"model": model().state_dict(), "step": 7}, root + "/ckpt_7.pt")


def save_safetensors(root):
    from safetensors.torch import save_file

    save_file(model().state_dict(), root + "/model_7.safetensors")


def save_dcp(root):
    import torch.distributed.checkpoint as dcp

    one_rank()
    dcp.save({"model": model().state_dict()}, checkpoint_id=root + "/step_7")


def save_accelerate(root):
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    net = model()
    net, optimizer = accelerator.prepare(net, torch.optim.AdamW(net.parameters()))
    net(torch.ones(2, 16)).sum().backward()
    optimizer.step()
    accelerator.save_state(root + "/checkpoint_7")


def save_lightning(root):
    import lightning
    import torch

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = model()

        def training_step(self, batch, _):
            return self.net(batch[0]).sum()

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(8, 16)))
    trainer = lightning.Trainer(accelerator="cpu", max_steps=7, logger=False,
                                enable_checkpointing=False, enable_progress_bar=False,
                                enable_model_summary=False)
    trainer.fit(Net(), data)
    trainer.save_checkpoint(root + "/epoch=0-step=7.ckpt")


def save_huggingface(root):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    class Numbers(torch.utils.data.Dataset):
        def __len__(self):
            return 16

        def __getitem__(self, i):
            ids = torch.arange(8) % 32
            return {"input_ids": ids, "labels": ids}

    net = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=8, n_embd=16, n_layer=1, n_head=2))
    arguments = TrainingArguments(output_dir=root, max_steps=7, save_steps=7, use_cpu=True,
                                  report_to=[], disable_tqdm=True, per_device_train_batch_size=2)
    Trainer(model=net, args=arguments, train_dataset=Numbers()).train()


def save_deepspeed(root):
    import deepspeed
    import torch

    one_rank()
    os.environ.update(LOCAL_RANK="0")
    net = model()
    engine, *_ = deepspeed.initialize(
        model=net, model_parameters=net.parameters(),
        config={"train_batch_size": 2, "zero_optimization": {"stage": 2},
                "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "torch_adam": True}}})
    engine.backward(engine(torch.ones(2, 16)).sum())
    engine.step()
    engine.save_checkpoint(root, tag="global_step7")


KINDS = {
    "torch": (save_torch, "torch", []),
    "safetensors": (save_safetensors, "safetensors", []),
    "dcp": (save_dcp, "torch", []),
    "accelerate": (save_accelerate, "accelerate", []),
    "lightning": (save_lightning, "lightning", []),
    "huggingface": (save_huggingface, "transformers", []),
    "deepspeed": (save_deepspeed, "deepspeed", ["latest"]),
}


# Written under another name, and renamed when it is whole.
RENAMED = {".metadata": ".metadata.tmp"}


def files_in_order(root):
    """Paths below root with their bytes, in the order in which they were written."""
    found = []
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            found.append((os.stat(path).st_mtime_ns, os.path.relpath(path, root)))
    return [(path, open(os.path.join(root, path), "rb").read()) for _, path in sorted(found)]


def put(root, files):
    for path, data in files:
        os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
        with open(os.path.join(root, path), "wb") as file:
            file.write(data)


def cut(files, random_place, not_needed):
    """The save up to a random byte; None: all that is needed is there."""
    needed = [i for i, (path, _) in enumerate(files) if os.path.basename(path) not in not_needed]
    total = sum(len(data) for _, data in files)
    place = random_place(total)
    kept = []
    for i, (path, data) in enumerate(files):
        if place < len(data):
            if i > max(needed):
                return None
            name = os.path.basename(path)
            path = os.path.join(os.path.dirname(path), RENAMED.get(name, name))
            return kept + ([(path, data[:place])] if place > 0 or random_place(2) else [])
        kept.append((path, data))
        place -= len(data)
    return None


def complete_below(muster, root):
    out = subprocess.run([muster, "checkpoint", "list", root, "-o", "json"], capture_output=True,
                         text=True, check=True).stdout
    return [one for one in json.loads(out) if one["state"] == "COMPLETE"]


def is_of_kind(one, kind):
    return one["kind"] == kind


def judge(kind, muster, work, cuts):
    save, library, not_needed = KINDS[kind]
    try:
        importlib.import_module(library)
    except ImportError:
        print(f"{kind} skipped: no {library}")
        return True
    root = os.path.join(work, kind)
    os.makedirs(os.path.join(root, "whole"))
    save(os.path.join(root, "whole"))
    whole = [one for one in complete_below(muster, os.path.join(root, "whole"))
             if is_of_kind(one, kind)]
    step = whole[0]["step"] if whole else None
    files = files_in_order(os.path.join(root, "whole"))
    choose = random.Random(7)
    taken = made = 0
    while made < cuts:
        part = min(100, cuts - made)
        below = os.path.join(root, "cut")
        for i in range(part):
            kept = None
            while kept is None:
                kept = cut(files, choose.randrange, not_needed)
            os.makedirs(os.path.join(below, f"at{i}"))
            put(os.path.join(below, f"at{i}"), kept)
        # A whole file of weights in a folder that is cut is a whole file: another kind says so.
        taken += sum(is_of_kind(one, kind) for one in complete_below(muster, below))
        shutil.rmtree(below)
        made += part
    print(f"{kind} whole {len(whole)} of 1 (step {step}), cut {made}, taken {taken}")
    return len(whole) == 1 and taken == 0


def main():
    muster, work, cuts, *kinds = sys.argv[1:]
    results = [judge(kind, muster, work, int(cuts)) for kind in kinds or KINDS]
    sys.exit(0 if all(results) else 1)


main()
