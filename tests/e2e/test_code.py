"""A folder that was never an image trains: its code is sent, and runs in containers of a real engine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from services import Service

SCRIPT = """
import json, pathlib
import horovod.torch as hvd
import torch

hvd.init()
torch.manual_seed(hvd.rank())
slope = json.loads(pathlib.Path("data/truth.json").read_text())["slope"]
model = torch.nn.Linear(1, 1)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.3))
for step in range(60):
    x = torch.rand(64, 1)
    loss = ((model(x) - slope * x) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if hvd.rank() == 0:
    pathlib.Path("learned.txt").write_text(f"{model.weight.item():.2f}")
    print("rank 0 of", hvd.size(), "in", pathlib.Path.cwd(), "learned", pathlib.Path("learned.txt").read_text())
"""


@pytest.mark.docker
@pytest.mark.horovod
def test_a_folder_trains_in_containers_on_two_gpus(
    tmp_path: Path, docker_url: str, worker_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "nets"
    (project / "data").mkdir(parents=True)
    (project / "train.py").write_text(SCRIPT)
    (project / "data" / "truth.json").write_text('{"slope": 3.0}')
    monkeypatch.chdir(project)
    env = {"DOCKER_HOST": docker_url, "SCHEDULEARN_DEFAULT_IMAGE": worker_image}
    with Service(tmp_path / "data", runtime="docker", env=env) as served:
        done = served.run("run", "--gpus", "2", "--", "python", "train.py")
        learned = re.search(r"rank 0 of 2 in /workspace learned ([0-9.]+)", done.out)
        assert learned, done.out
        assert float(learned[1]) == pytest.approx(3.0, abs=0.5)
        (project / "train.py").write_text("import os; print('edited, in', os.getcwd(), sorted(os.listdir()))")
        again = served.run("run", "--", "python", "train.py")
        assert "edited, in /workspace ['data', 'train.py']" in again.out
