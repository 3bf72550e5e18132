"""Trains on digits by PyTorch Lightning; see adapted.py."""

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from adapted import args, finish, network, rate, saw, test, train
from torch.utils.data import DataLoader


class Digits(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = network()

    def training_step(self, batch, batch_index):
        x, y, index = batch
        loss = F.cross_entropy(self.net(x), y)
        self.log("loss", loss)
        saw(self.current_epoch, self.global_step, index, loss)
        return loss

    def validation_step(self, batch, batch_index):
        x, y, _ = batch
        self.log("accuracy", (self.net(x).argmax(1) == y).float().mean(), sync_dist=True)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        total = self.trainer.estimated_stepping_batches
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step / total))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


options = {}
if not args.plain:
    import schedulearn.worker.lightning as worker

    options = {"strategy": worker.Strategy(), "callbacks": [worker.Callback(seed=args.seed)]}
trainer = pl.Trainer(
    max_epochs=args.epochs, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False, log_every_n_steps=5, **options,
)  # fmt: skip
model = Digits()
trainer.fit(model, DataLoader(train, batch_size=64, shuffle=True), DataLoader(test, batch_size=len(test)))
finish(model.net, trainer.current_epoch, trainer.global_step)
