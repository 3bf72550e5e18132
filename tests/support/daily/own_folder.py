"""A folder as people have them, that was never an image: it trains by `schedulearn run`, is resized meanwhile, and its
model comes back."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from clusters import wait_for
from services import Service
from training import ROOT, resize

POLICY = {"SCHEDULEARN_POLICIES": json.dumps([f"{ROOT / 'tests/support/resizing.py'}:Sized"])}
"""What a service needs for `train_resize_and_fetch`."""

FILES = {
    "train.py": """\
import hashlib, io, json, os, pathlib, time
import horovod.torch as hvd
import torch
import schedulearn.worker.torch as worker
from nets.model import make_model

hvd.init()
torch.set_num_threads(1)
torch.manual_seed(0)
slope = json.loads(pathlib.Path("data/truth.json").read_text())["slope"]
x = torch.rand(256, 8)
data = torch.utils.data.TensorDataset(x, slope * x.sum(1, keepdim=True))
model = make_model()
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
run = worker.Run(batch_size=32)
loader = run.loader(data)
optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.02), model)
together = 0
for epoch in run.epochs(10_000, model=model):
    for inputs, wanted in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        loss.backward()
        optimizer.step()
    together += hvd.size() == 2
    time.sleep(0.05)
    if hvd.rank() == 0:
        print(f"epoch {epoch} of {hvd.size()} in {pathlib.Path.cwd()}", flush=True)
    if together == 5:
        break
if hvd.rank() == 0:
    written = io.BytesIO()
    torch.save(model.state_dict(), written)
    pathlib.Path(os.environ["SCHEDULEARN_OUTPUT_DIR"], "model.pt").write_bytes(written.getvalue())
    print("model", hashlib.sha256(written.getvalue()).hexdigest(), f"loss {loss.item():.6f}", flush=True)
""",
    "nets/__init__.py": "",
    "nets/model.py": "import torch\n\n\ndef make_model():\n    return torch.nn.Linear(8, 1)\n",
    "data/truth.json": '{"slope": 3.0}',
    ".gitignore": "*.log\n",
    "old.log": "this stays here",
}


def train_resize_and_fetch(served: Service, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The job's id. On one GPU at first, then on two; `served` has the policy of `POLICY`."""
    project = folder / "nets"
    for path, text in FILES.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    monkeypatch.chdir(project)
    resize(served, 1)
    job = served.run("run", "-d", "--elastic", "--max-gpus", "2", "--", "python", "train.py").out.strip()
    wait_for(lambda: "epoch 3 of 1" in _going(served, job), seconds=180, what="training on one GPU", pause=0.1)
    resize(served, 2)
    ended = served.wait(job, "succeeded", "failed", seconds=180)
    log = served.logs(job)
    assert ended["state"] == "succeeded", log
    epochs = [(int(epoch), int(size)) for epoch, size in re.findall(r"epoch (\d+) of (\d)", log)]
    sizes = [size for _, size in epochs]
    assert sizes == sorted(sizes), log
    assert sizes.count(2) == 5, log
    [resized] = [epoch for epoch, size in epochs if size == 2][:1]
    assert resized >= 3, f"it began anew at its resize: {log}"
    served.run("cp", f"{job}:/outputs/model.pt", str(folder))
    served.run("files", "get", job, "outputs/model.pt", str(folder / "again.pt"))
    model = (folder / "model.pt").read_bytes()
    [told] = re.findall(r"model (\w{64}) loss", log)
    assert hashlib.sha256(model).hexdigest() == told
    assert (folder / "again.pt").read_bytes() == model
    return job


def _going(served: Service, job: str) -> str:
    """Its log; fails as soon as it has ended."""
    log = served.logs(job)
    assert served.job(job)["state"] not in ("failed", "succeeded"), log
    return log
