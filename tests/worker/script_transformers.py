"""Trains on digits by the Trainer of Transformers; see adapted.py."""

import os

import torch
import torch.nn.functional as F
from adapted import args, finish, network, rate, saw, test, train
from torch import nn
from transformers import Trainer, TrainingArguments


class Digits(nn.Module):
    """Its `forward` has the arguments that the Trainer gives a model."""

    def __init__(self):
        super().__init__()
        self.net = network()

    def forward(self, pixels, labels, index):
        logits = self.net(pixels)
        loss = F.cross_entropy(logits, labels)
        if self.training:
            saw(int(trainer.state.epoch), trainer.state.global_step, index, loss)
        return {"loss": loss, "logits": logits}


class DividesByItems(Digits):
    """Its loss is divided as the Trainer says, as that of language models is."""

    def forward(self, pixels, labels, index, num_items_in_batch=None, **_):
        logits = self.net(pixels)
        if num_items_in_batch is None:
            return {"loss": F.cross_entropy(logits, labels), "logits": logits}
        return {"loss": F.cross_entropy(logits, labels, reduction="sum") / num_items_in_batch, "logits": logits}


def collate(samples):
    pixels, labels, index = (torch.stack(each) for each in zip(*samples, strict=True))
    return {"pixels": pixels, "labels": labels, "index": index}


model = DividesByItems() if args.items else Digits()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
arguments = TrainingArguments(
    output_dir=os.path.join(args.out, "output"), num_train_epochs=args.epochs, per_device_train_batch_size=64,
    per_device_eval_batch_size=180, use_cpu=True, report_to=[], save_strategy="no", eval_strategy="epoch",
    label_names=["labels"], logging_steps=5, disable_tqdm=True, remove_unused_columns=False, max_grad_norm=0.0,
    seed=args.seed,
)  # fmt: skip
total = args.epochs * -(-len(train) // 64)
trainer = Trainer(
    model=model, args=arguments, train_dataset=train, eval_dataset=test, data_collator=collate,
    compute_metrics=lambda found: {"accuracy": float((found.predictions.argmax(1) == found.label_ids).mean())},
    optimizers=(optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step / total))),
)  # fmt: skip
if args.plain:
    trainer.train()
else:
    import schedulearn.worker.transformers as worker

    worker.train(trainer)
finish(model.net, round(trainer.state.epoch), trainer.state.global_step)
