"""What the scripts of the frameworks' adapters share: real digits, a small model, and who saw which sample when.

script_FRAMEWORK.py KIND OUT [--epochs N] [--pause S] [--seed S] [--plain]

They pause in each step, until there is a file `hurry` in OUT. They have no randomness after their start: the same
samples in the same steps give the same weights, on any number of workers.
"""

import argparse
import json
import os
import time

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("kind")
parser.add_argument("out")
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--plain", action="store_true", help="without the SDK, on one worker")
parser.add_argument("--items", action="store_true", help="of Transformers: the loss is divided by the labels of all")
args = parser.parse_args()

torch.set_num_threads(1)
torch.manual_seed(args.seed)
digits = load_digits()
pixels = torch.from_numpy(digits.images).float().flatten(1) / 16
labels = torch.from_numpy(digits.target).long()
index = torch.arange(len(labels))
train = TensorDataset(pixels[:1437], labels[:1437], index[:1437])
test = TensorDataset(pixels[1437:], labels[1437:], index[1437:])
attempt, rank = os.environ.get("SCHEDULEARN_ATTEMPT", "0"), int(os.environ.get("RANK", "0"))
size = int(os.environ.get("WORLD_SIZE", "1"))
seen = open(os.path.join(args.out, f"seen-{attempt}-{rank}.jsonl"), "a", buffering=1)  # noqa: SIM115


def network():
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def saw(epoch, step, indices, loss):
    """Write down a batch of this worker; `step`: steps before it, over all attempts."""
    line = {
        "epoch": epoch,
        "step": step,
        "seen": indices.tolist(),
        "loss": loss.item(),
        "at": time.time(),
        "size": size,
    }
    seen.write(json.dumps(line) + "\n")
    if not os.path.exists(os.path.join(args.out, "hurry")):
        time.sleep(args.pause)


def rate(fraction):
    """Factor of the learning rate."""
    return max(0.05, 1 - fraction)


def finish(net, epochs, steps):
    """Print the result of a training. All workers call it: those of FSDP have a part of the model each."""
    with torch.no_grad():
        accuracy = (net(pixels[1437:]).argmax(1) == labels[1437:]).float().mean().item()
    weights = sum(getattr(p, "full_tensor", lambda p=p: p)().abs().sum().item() for p in net.parameters())
    if rank == 0:
        print(f"final accuracy {accuracy:.4f} weights {weights:.4f} epochs {epochs} steps {steps}", flush=True)
