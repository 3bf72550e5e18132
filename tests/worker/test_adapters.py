"""What the frameworks' adapters refuse and say, with the real frameworks. tests/e2e/test_adapters.py trains by them."""

import os
import re
from pathlib import Path

import pytest
from environments import Python

pytestmark = [
    pytest.mark.long,
    pytest.mark.horovod,
    pytest.mark.skipif(
        not os.environ.get("SCHEDULEARN_TEST_TRAINING"),
        reason="ADAPTERS ARE NOT tested here: their frameworks take minutes to install. Run `make test-training`",
    ),
]

ATTEMPT = """
def attempt(words, call):
    try:
        call()
    except ValueError as error:
        assert words in str(error), error
    else:
        raise SystemExit("nothing said about " + words)
"""

LIGHTNING = (
    ATTEMPT
    + """
import lightning.pytorch as pl, torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, WeightedRandomSampler
import schedulearn.worker.lightning as worker

class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(2, 1)
    def training_step(self, batch, index):
        loss = self.net(batch[0]).mean()
        self.log("loss(of all)", loss)
        return loss
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.ones(8, 2))

def fit(loader=None, strategy=True, callback=True, **options):
    if strategy:
        options["strategy"] = worker.Strategy()
    if callback:
        options["callbacks"] = [worker.Callback()]
    quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer = pl.Trainer(max_epochs=2, accelerator="cpu", **quiet, **options)
    trainer.fit(Model(), DataLoader(data, batch_size=4) if loader is None else loader)
    return trainer

data = TensorDataset(torch.ones(10, 2))
attempt("needs its strategy", lambda: fit(strategy=False))
attempt("needs its callback", lambda: fit(callback=False))
attempt("use 1, and a DataLoader with 2 times the batch", lambda: fit(accumulate_grad_batches=2))
sampler = WeightedRandomSampler([1.0] * 10, 10)
attempt("the SDK orders the samples", lambda: fit(DataLoader(data, batch_size=4, sampler=sampler)))
attempt("no length", lambda: fit(DataLoader(Stream(), batch_size=4)))
attempt("several training DataLoaders", lambda: fit([DataLoader(data, 4), DataLoader(data, 4)]))
trainer = fit()
assert trainer.global_step == 3 * 3, trainer.global_step  # the job's epochs
attempt("for one call of fit", lambda: trainer.fit(Model(), DataLoader(data, 4)))
trainer = fit(limit_train_batches=2)
assert trainer.global_step == 3 * 2, trainer.global_step
"""
)

TRANSFORMERS = (
    ATTEMPT
    + """
import torch, sys
from transformers import Trainer, TrainingArguments
import schedulearn.worker.transformers as worker

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(2, 1)
    def forward(self, x):
        return {"loss": self.net(x).mean()}

def train(**options):
    made = TrainingArguments(
        sys.argv[1], per_device_train_batch_size=4, num_train_epochs=2, use_cpu=True, report_to=[],
        save_strategy="no", remove_unused_columns=False, disable_tqdm=True, **options,
    )
    trainer = Trainer(Model(), made, train_dataset=[{"x": torch.ones(2)}] * 10)
    worker.train(trainer)
    return trainer

attempt("use 1, and per_device_train_batch_size=8", lambda: train(gradient_accumulation_steps=2))
assert train().state.global_step == 3 * 3  # the job's epochs
"""
)

ACCELERATE = (
    ATTEMPT
    + """
import os, sys, torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler
import schedulearn.worker.accelerate as worker

data = TensorDataset(torch.ones(10, 2))
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def adapt(loader=None, only=None, accelerator=None):
    accelerator = accelerator or Accelerator(cpu=True)
    loader = DataLoader(data, 4, shuffle=True) if loader is None else loader
    net, prepared, loader = accelerator.prepare(model, optimizer, loader)
    states = {"model": net, "optimizer": prepared}
    return accelerator, prepared, *worker.adapt(accelerator, loader, **(only or states))

attempt("use 1, and 2 times the batch", lambda: adapt(accelerator=Accelerator(cpu=True, gradient_accumulation_steps=2)))
attempt("the SDK orders the samples", lambda: adapt(DataLoader(data, 4, sampler=WeightedRandomSampler([1.0] * 10, 10))))
attempt("give adapt the model and its optimizer", lambda: adapt(only={"model": model}))
accelerator, prepared, run, loader = adapt(accelerator=Accelerator(cpu=True))
for epoch in run.epochs(2):
    for (x,) in loader:
        prepared.zero_grad()
        accelerator.backward(model(x).mean())
        prepared.step()
    accelerator.log({"loss": 1.0, "note": "text"})
assert (run.epoch, run.step) == (3, 3 * 3)  # the job's epochs
os.environ["SCHEDULEARN_CHECKPOINT_DIR"] = sys.argv[1]
adapt(accelerator=Accelerator(cpu=True))
attempt("the second training of the job", lambda: adapt(accelerator=Accelerator(cpu=True)))
"""
)

FSDP = (
    ATTEMPT
    + """
import torch
from torch.distributed.fsdp import fully_shard
import schedulearn.worker.torch as worker

torch.distributed.init_process_group("gloo")
model = torch.nn.Linear(2, 1)
fully_shard(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
run = worker.Run(4)  # up to 16, says the job
run.optimizer(optimizer, model)
assert run.batch.bounds.max_batch == 4
attempt("does not support steps of several passes", lambda: worker.Run(4, max_local=2).optimizer(optimizer, model))
"""
)


@pytest.mark.parametrize("code", [LIGHTNING, TRANSFORMERS, ACCELERATE], ids=["lightning", "transformers", "accelerate"])
def test_what_would_train_otherwise_is_refused(horovod_env: Path, frameworks: str, tmp_path: Path, code: str) -> None:
    python = Python(horovod_env, tmp_path, frameworks)
    job = {**python.job, "SCHEDULEARN_EPOCHS": "3", "SCHEDULEARN_MAX_BATCH_SIZE": "16"}
    del job["SCHEDULEARN_CHECKPOINT_DIR"]  # each of several trainings in one process would continue the one before
    output = python.run("alone", 1, "-c", code, str(tmp_path / "output"), **job)
    assert "the batch stays at 4, not up to 16" in output


def test_fsdp_says_what_it_can_not_do(horovod_env: Path, tmp_path: Path) -> None:
    python = Python(horovod_env, tmp_path)
    job = {**python.job, "SCHEDULEARN_MAX_BATCH_SIZE": "16"}
    output = python.run("torchrun", 1, "-c", FSDP, **job)
    assert "with FSDP the noise is not measured: the batch is fixed" in output
    output = python.run("torchrun", 1, "-c", FSDP, **job, SCHEDULEARN_NUM_NODES="2", code=1)
    assert "FSDP on several hosts is not supported" in output


def test_a_loss_that_the_trainer_divides_by_all_labels_counts_each_sample_equally(
    horovod_env: Path, frameworks: str, tmp_path: Path
) -> None:
    """The last batch of 29 has unequal shares. A weight by samples, in addition, would count some of them twice."""
    python = Python(horovod_env, tmp_path, frameworks)
    weights = []
    for workers in (1, 2):
        script = [str(Path(__file__).with_name("script_transformers.py")), "torchrun", str(tmp_path), "--items"]
        output = python.run("torchrun", workers, *script, "--epochs", "2", SCHEDULEARN_JOB_ID="j")
        weights.append(float(re.findall(r"weights ([0-9.]+)", output)[-1]))
    assert weights[1] == pytest.approx(weights[0], rel=1e-5)
