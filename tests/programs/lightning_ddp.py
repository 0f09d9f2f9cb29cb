"""Lightning with DDP, which resumes from its last checkpoint by itself.

lightning_ddp.py FOLDER STEPS
"""
import os
import sys
import time

import lightning
import torch

folder, steps = sys.argv[1], int(sys.argv[2])


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(16, 4)

    def training_step(self, batch, index):
        time.sleep(0.05)
        # The sampler starts over when an epoch is resumed in its middle: data is the step's own.
        generator = torch.Generator().manual_seed(1000 * self.global_step + self.global_rank)
        return self.net(torch.randn(4, 16, generator=generator)).square().mean()

    def on_train_batch_end(self, *args):
        if self.global_rank == 0:
            print("step", self.global_step, flush=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


lightning.seed_everything(1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(4096, 1)))
local = int(os.environ["LOCAL_WORLD_SIZE"])
trainer = lightning.Trainer(
    accelerator="cpu", devices=local, num_nodes=int(os.environ["WORLD_SIZE"]) // local,
    strategy="ddp", max_steps=steps, logger=False, enable_progress_bar=False,
    enable_model_summary=False, default_root_dir=folder,
    callbacks=[lightning.pytorch.callbacks.ModelCheckpoint(
        dirpath=folder, every_n_train_steps=5, save_last=True, save_top_k=-1)])
net = Net()
trainer.fit(net, loader, ckpt_path="last")
if trainer.is_global_zero:
    weights = torch.cat([p.detach().flatten() for p in net.parameters()])
    print("weights", weights.sum().item().hex(), weights.abs().max().item().hex(), flush=True)
