"""Metrics as programs tell them to others, once a step: nothing of muster in here.

told_metrics.py tensorboard|lightning|mlflow|hf STEPS
"""
import math
import os
import sys

kind, steps = sys.argv[1], int(sys.argv[2])
rank = int(os.environ.get("RANK", 0))


def loss(step):
    return 4 / step + 100 * rank


if kind == "tensorboard":
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter("runs/one", flush_secs=1) as writer:
        for step in range(1, steps + 1):
            writer.add_scalar("loss", loss(step), step)
            writer.add_scalars("pair", {"a": step, "b": math.nan}, step)
        writer.add_text("words", "x" * 400_000)
        writer.add_scalar("last", 1, steps)
elif kind == "lightning":
    from lightning.pytorch.loggers import CSVLogger

    if rank == 0:
        logger = CSVLogger(".", flush_logs_every_n_steps=3)
        for step in range(1, steps + 1):
            logger.log_metrics({"loss": loss(step)}, step)
            if step % 10 == 0:
                logger.log_metrics({"a, b": step}, step)
        logger.finalize("success")
elif kind == "mlflow":
    import mlflow

    with mlflow.start_run():
        for step in range(1, steps + 1):
            mlflow.log_metric("loss", loss(step), step=step)
        mlflow.log_metric("odd", math.nan, step=steps)
elif kind == "hf":
    import torch
    from transformers import Trainer, TrainingArguments

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def forward(self, x, labels=None):
            return {"loss": ((self.weight - x) ** 2).mean()}

    data = [{"x": torch.ones(1), "labels": torch.ones(1)}] * 64
    arguments = TrainingArguments(
        output_dir="out", max_steps=steps, save_steps=steps, logging_steps=1, use_cpu=True,
        report_to=[], disable_tqdm=True)
    Trainer(model=Net(), args=arguments, train_dataset=data).train()
