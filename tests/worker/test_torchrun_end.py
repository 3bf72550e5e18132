"""The end of a process whose gradients Gloo has averaged, in the environment that jobs run in."""

from pathlib import Path

import pytest
from environments import Python

pytestmark = pytest.mark.horovod

SCRIPT = """
import time, torch
import schedulearn.worker.torch as worker

class Slow:
    def __del__(self):
        time.sleep(0.5)

def then(future, callback, register=torch._C.Future.then):
    def slowly_let_go(done, slow=Slow()):  # its defaults go first, then `callback`
        return callback(done)
    return register(future, slowly_let_go)

torch._C.Future.then = then
torch.distributed.init_process_group("gloo")
model = torch.nn.Linear(4, 4)
net = torch.nn.parallel.DistributedDataParallel(model)
run = worker.Run(32)
loader = run.loader(torch.utils.data.TensorDataset(torch.ones(64, 4)))
optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1), net)
for epoch in run.epochs(1, model=model):
    for (x,) in loader:
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()
"""


def test_a_thread_of_gloo_that_is_slow_does_not_abort_the_end(horovod_env: Path, tmp_path: Path) -> None:
    """As on a busy machine: the worker is at its end before the thread could let go of the last callback."""
    Python(horovod_env, tmp_path).run("torchrun", 2, "-c", SCRIPT, SCHEDULEARN_JOB_ID="j")
