"""Saves with real libraries, cuts what they wrote or kills the save, and asks muster which of it is
complete.

checkpoint_cuts.py MUSTER FOLDER cuts|kills N [KIND…]; ends with 1 when one that is not whole was
taken or a whole one was missed.
"""
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback
import warnings

warnings.filterwarnings("ignore")
os.environ.update(CUDA_VISIBLE_DEVICES="", DS_ACCELERATOR="cpu")


def model(width):
    import torch

    return torch.nn.Sequential(torch.nn.Linear(16, width), torch.nn.Linear(width, width // 4))


def fill(net, number):
    for weights in net.parameters():
        weights.data.fill_(number)


def each(steps, net, saved, save):
    """One save a step, of weights that are the step's number; told before it: the one before."""
    for n in steps:
        fill(net, n)
        saved(n - 1)
        save(n)


def one_rank():
    import torch.distributed as dist

    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def save_torch(root, width, steps, saved):
    import torch

    net = model(width)
    each(steps, net, saved, lambda n: torch.save({"model": net.state_dict(), "step": n},
                                                 f"{root}/ckpt_{n}.pt"))


def load_torch(path, _):
    import torch

    return torch.load(path)["model"].values()


def save_safetensors(root, width, steps, saved):
    from safetensors.torch import save_file

    net = model(width)
    each(steps, net, saved, lambda n: save_file(net.state_dict(), f"{root}/model_{n}.safetensors"))


def load_safetensors(path, _):
    from safetensors.torch import load_file

    return load_file(path).values()


def save_dcp(root, width, steps, saved):
    import torch.distributed.checkpoint as dcp

    one_rank()
    net = model(width)
    each(steps, net, saved, lambda n: dcp.save({"model": net.state_dict()},
                                               checkpoint_id=f"{root}/step_{n}"))


def load_dcp(path, width):
    import torch.distributed.checkpoint as dcp

    state = model(width).state_dict()
    dcp.load({"model": state}, checkpoint_id=path)
    return state.values()


def accelerated(width):
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    net = model(width)
    net, optimizer = accelerator.prepare(net, torch.optim.AdamW(net.parameters()))
    net(torch.ones(2, 16)).sum().backward()
    optimizer.step()
    return accelerator, net


def save_accelerate(root, width, steps, saved):
    accelerator, net = accelerated(width)
    each(steps, net, saved, lambda n: accelerator.save_state(f"{root}/checkpoint_{n}"))


def load_accelerate(path, width):
    accelerator, net = accelerated(width)
    accelerator.load_state(path)
    return net.parameters()


def fit(width, path=None):
    import lightning
    import torch

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = model(width)

        def training_step(self, batch, _):
            return self.net(batch[0]).sum()

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(8, 16)))
    trainer = lightning.Trainer(accelerator="cpu", max_steps=7, logger=False,
                                enable_checkpointing=False, enable_progress_bar=False,
                                enable_model_summary=False)
    net = Net()
    trainer.fit(net, data, ckpt_path=path)
    return trainer, net


def save_lightning(root, width, steps, saved):
    trainer, net = fit(width)
    each(steps, net, saved, lambda n: trainer.save_checkpoint(f"{root}/epoch=0-step={n}.ckpt"))


def load_lightning(path, width):
    return fit(width, path)[1].parameters()


def trainer_of(width, **options):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    class Numbers(torch.utils.data.Dataset):
        def __len__(self):
            return 16

        def __getitem__(self, i):
            ids = torch.arange(8) % 32
            return {"input_ids": ids, "labels": ids}

    net = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=8, n_embd=width // 4, n_layer=1,
                                     n_head=2))
    arguments = TrainingArguments(use_cpu=True, report_to=[], disable_tqdm=True, learning_rate=0,
                                  per_device_train_batch_size=2, **options)
    return Trainer(model=net, args=arguments, train_dataset=Numbers())


def save_huggingface(root, width, steps, saved):
    from transformers import TrainerCallback

    class Fill(TrainerCallback):
        def on_step_end(self, _, state, control, **kwargs):
            fill(kwargs["model"], state.global_step)
            saved(state.global_step - 1)

    trainer = trainer_of(width, output_dir=root, max_steps=steps[-1], save_steps=steps[0],
                         save_total_limit=2)
    trainer.add_callback(Fill())
    trainer.train()


def load_huggingface(path, width):
    trainer = trainer_of(width, output_dir=path + "/none", max_steps=int(path.split("-")[-1]),
                         save_strategy="no")
    trainer.train(resume_from_checkpoint=path)
    return trainer.model.parameters()


def engine_of(width, stage):
    import deepspeed
    import torch

    deepspeed.comm.torch.build_shm_op = lambda: None  # it would be compiled
    one_rank()
    net = model(width)
    engine, *_ = deepspeed.initialize(
        model=net, model_parameters=net.parameters(),
        config={"train_batch_size": 2, "zero_optimization": {"stage": stage},
                "zero_allow_untested_optimizer": True,
                "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "torch_adam": True}}})
    engine.backward(engine(torch.ones(2, 16)).sum())
    engine.step()
    return engine


def save_deepspeed(root, width, steps, saved, stage=2):
    engine = engine_of(width, stage)
    # The optimizer has weights of its own: the step is what is compared.
    each(steps, model(1), saved, lambda n: engine.save_checkpoint(
        root, tag=f"global_step{n}", client_state={"step": n}))


def load_deepspeed(path, width, stage=2):
    import torch

    root, tag = os.path.split(path)
    return [torch.tensor(engine_of(width, stage).load_checkpoint(root, tag)[1]["step"])]


def save_deepspeed3(*arguments):
    save_deepspeed(*arguments, stage=3)


def load_deepspeed3(*arguments):
    return load_deepspeed(*arguments, stage=3)


# The library, and what of a save is not needed.
KINDS = {
    "torch": ("torch", []),
    "safetensors": ("safetensors", []),
    "dcp": ("torch", []),
    "accelerate": ("accelerate", []),
    "lightning": ("lightning", []),
    "huggingface": ("transformers", []),
    "deepspeed": ("deepspeed", ["latest", "zero_to_fp32.py", "zero_to_torch.py"]),
    "deepspeed3": ("deepspeed", ["latest", "zero_to_fp32.py", "zero_to_torch.py"]),  # ZeRO-3
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
    return one["kind"] == kind.rstrip("3")


def judge_cuts(kind, muster, root, cuts):
    not_needed = KINDS[kind][1]
    os.makedirs(os.path.join(root, "whole"))
    globals()["save_" + kind](os.path.join(root, "whole"), 32, range(7, 8), lambda n: None)
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


def forked(log, work):
    """A process that ends with the number that work returns; 255: it failed, and the log says why.
    What was imported is there at once."""
    pid = os.fork()
    if pid > 0:
        return pid
    try:
        for number in (1, 2):
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        importlib.import_module("torch").set_num_threads(1)
        os._exit(work() or 0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(255)


def bad_ones(found, kind, width):
    """How many of them the library does not load as what was saved at their step."""
    bad = 0
    for one in found:
        load = kind if is_of_kind(one, kind) else one["kind"]
        try:
            values = list(globals()["load_" + load](one["path"], width))
            bad += not values or not all((value == one["step"]).all() for value in values)
        except Exception:
            traceback.print_exc()
            bad += 1
    return bad


def judge_kills(kind, muster, root, kills):
    below, notes, log = (os.path.join(root, name) for name in ("below", "notes", "log"))
    width = 4096 if kind in ("torch", "safetensors", "dcp") else 1024

    def note(n):
        with open(notes, "a") as file:
            file.write(f"{n} {time.monotonic()}\n")

    def noted():
        return [line.split() for line in open(notes)] if os.path.exists(notes) else []

    def save(last):
        globals()["save_" + kind](below, width, range(1, last + 1), note)

    def save_and_load():
        save(8)
        bad = bad_ones(complete_below(muster, below), kind, width)
        with open(log + ".modules", "w") as file:
            file.write("\n".join(sys.modules))
        return bad

    os.makedirs(below)
    if os.waitpid(forked(log, save_and_load), 0)[1] != 0:
        print(f"{kind} does not save or load:\n{open(log, errors='replace').read()[-3000:]}")
        return False
    for module in open(log + ".modules").read().split("\n"):
        try:
            importlib.import_module(module)
        except Exception:
            pass
    one_save = (float(noted()[7][1]) - float(noted()[0][1])) / 7
    choose = random.Random(7)
    taken = missed = first = 0
    for _ in range(kills):
        shutil.rmtree(below)
        os.makedirs(below)
        os.remove(notes)
        child = forked(log, lambda: save(1 << 20))
        ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while not noted() and os.waitid(os.P_PID, child, ended) is None:
            time.sleep(0.001)
        time.sleep(choose.uniform(0, 6 * one_save))
        os.kill(child, signal.SIGKILL)
        if os.waitpid(child, 0)[1] != signal.SIGKILL:
            print(f"{kind} ended by itself:\n{open(log, errors='replace').read()[-3000:]}")
            return False
        last = int(noted()[-1][0])  # one write each, so that lines are whole
        found = complete_below(muster, below)
        bad = os.waitstatus_to_exitcode(
            os.waitpid(forked(log, lambda: bad_ones(found, kind, width)), 0)[1])
        # The Trainer removes older ones.
        wanted = set(range(max(1, last) if kind == "huggingface" else 1, last + 1))
        lost = wanted - {one["step"] for one in found if is_of_kind(one, kind)}
        taken, missed, first = taken + bad, missed + len(lost), first + (last == 0)
        if bad or lost:
            print(f"{kind} after {last} saves: complete {found}, missed {lost}")
            print(open(log, errors="replace").read()[-3000:])
    print(f"{kind} kills {kills} ({first} in the first save, one takes {one_save:.3f} s), "
          f"taken {taken}, missed {missed}", flush=True)
    return taken == 0 and missed == 0


def judge(kind, muster, work, how, number):
    library = KINDS[kind][0]
    try:
        importlib.import_module(library)
    except ImportError:
        print(f"{kind} skipped: no {library}")
        return True
    how = judge_kills if how == "kills" else judge_cuts
    return how(kind, muster, os.path.join(work, kind), number)


def main():
    muster, work, how, number, *kinds = sys.argv[1:]
    results = [judge(kind, muster, work, how, int(number)) for kind in kinds or KINDS]
    sys.exit(0 if all(results) else 1)


main()
