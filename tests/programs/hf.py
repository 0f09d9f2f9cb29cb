"""Hugging Face Trainer as people use it: resumes from its last checkpoint by itself.

hf.py FOLDER STEPS
"""
import os
import sys
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

folder, steps = sys.argv[1], int(sys.argv[2])


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, i):
        ids = (torch.arange(8) * (i % 5 + 1) + i) % 32
        return {"input_ids": ids, "labels": ids}


class Pace(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(0.05)
        if state.is_world_process_zero:
            print("step", state.global_step, flush=True)


torch.manual_seed(1)
net = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=8, n_embd=32, n_layer=2, n_head=2))
arguments = TrainingArguments(
    output_dir=folder, max_steps=steps, save_steps=5, use_cpu=True, report_to=[],
    disable_tqdm=True, per_device_train_batch_size=2, save_total_limit=3, seed=1)
trainer = Trainer(model=net, args=arguments, train_dataset=Numbers(), callbacks=[Pace()])
last = get_last_checkpoint(folder) if os.path.isdir(folder) else None
trainer.train(resume_from_checkpoint=last)
if trainer.is_world_process_zero():
    weights = torch.cat([p.detach().flatten() for p in net.parameters()])
    print("weights", weights.sum().item().hex(), weights.abs().max().item().hex(), flush=True)
