"""Prints what a loader's own processes draw for each sample of two epochs; the batch changes in the middle of one.

script_random.py
"""

import json

import torch

import schedulearn.worker.torch as worker

torch.distributed.init_process_group("gloo")
torch.manual_seed(0)  # as scripts do: the same on all workers


class Augmented(torch.utils.data.Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        return torch.rand((), dtype=torch.float64)


run = worker.Run(8, 16)
loader = run.loader(Augmented(), num_workers=1)
drawn = []
for epoch in run.epochs(2):
    for draws in loader:
        drawn += draws.tolist()
        if epoch == 0 and len(drawn) == 12:
            run.batch.choose(16, "")
for each in run.workers.gather(drawn):
    if run.workers.rank == 0:
        print(json.dumps({"drawn": each}), flush=True)
