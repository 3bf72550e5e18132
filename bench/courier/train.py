"""Trains a small network on handwritten digits in NumPy, for `python -m bench factorial`: real gradients, and half a
second from start to the first step.

Each GPU of the job is a worker, a process of its own, bound to a core. The workers share each batch, and sum their
gradients through shared memory before each step. All begin with the same weights; the order of the digits is drawn by
the job's id.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import mmap
import multiprocessing
import os
import time
import urllib.request
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
SIDE, DIGITS, ENLARGED = 8, 10, 3  # pixels of a side, classes, and by how much each side is enlarged
TRAINED = 1000  # digits to train on; the other 797 are the test
SHIFTS = (-2, 0, 2)  # pixels, in both directions: nine versions of each digit
EPOCH = TRAINED * len(SHIFTS) ** 2
LEARNING_RATE, MOMENTUM = 0.001, 0.9
CORES = 2  # that all jobs share, so that they disturb each other on a large host too


@dataclass
class Digits:
    images: Array
    labels: NDArray[np.intp]

    def some(self, rows: slice | NDArray[np.intp]) -> Digits:
        return Digits(self.images[rows], self.labels[rows])


def digits() -> Digits:
    """scikit-learn's, read from its file: its import takes longer than a short job."""
    spec = importlib.util.find_spec("sklearn")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("scikit-learn is missing: its digits are what is trained on")
    with gzip.open(Path(spec.submodule_search_locations[0]) / "datasets/data/digits.csv.gz") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    small = (table[:, :-1] / 16).reshape(-1, SIDE, SIDE)
    large = small.repeat(ENLARGED, axis=1).repeat(ENLARGED, axis=2).reshape(len(small), -1)
    order = np.random.default_rng(0).permutation(len(small))
    return Digits(large[order], table[:, -1].astype(np.intp)[order])


def shifted(digits: Digits) -> Digits:
    """Each digit several times, moved a little."""
    pictures = digits.images.reshape(-1, SIDE * ENLARGED, SIDE * ENLARGED)
    moved = [np.roll(pictures, (down, right), axis=(1, 2)) for down in SHIFTS for right in SHIFTS]
    images = np.concatenate(moved).reshape(-1, digits.images.shape[1])
    return Digits(images, np.tile(digits.labels, len(moved)))


class Network:
    """Two layers, all weights in one array, so that workers can sum their gradients."""

    def __init__(self, width: int, weights: Array) -> None:
        pixels = (SIDE * ENLARGED) ** 2
        self.weights = weights
        ends = np.cumsum([pixels * width, width, width * DIGITS, DIGITS])
        first, bias, second, last = np.split(weights, ends[:-1])
        self.first, self.bias = first.reshape(pixels, width), bias
        self.second, self.last = second.reshape(width, DIGITS), last

    @staticmethod
    def size(width: int) -> int:
        return (SIDE * ENLARGED) ** 2 * width + width + width * DIGITS + DIGITS

    def draw(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        for layer in (self.first, self.second):
            layer[...] = random.standard_normal(layer.shape, np.float32) * np.sqrt(2 / layer.shape[0])

    def scores(self, images: Array) -> tuple[Array, Array]:
        hidden: Array = np.maximum(images @ self.first + self.bias, 0)
        return hidden, hidden @ self.second + self.last

    def gradient(self, batch: Digits, whole: int, into: Network) -> None:
        """Of the mean loss over a batch of `whole`, of which this is a part."""
        hidden, scores = self.scores(batch.images)
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        scores[np.arange(len(scores)), batch.labels] -= 1
        scores /= whole
        np.matmul(hidden.T, scores, out=into.second)
        scores.sum(axis=0, out=into.last)
        back = (scores @ self.second.T) * (hidden > 0)
        np.matmul(batch.images.T, back, out=into.first)
        back.sum(axis=0, out=into.bias)

    def accuracy(self, test: Digits) -> float:
        return float((self.scores(test.images)[1].argmax(axis=1) == test.labels).mean())


class Workers:
    """What the workers of a job have in common: two gradients of each, for even and for odd steps, and a pipe from each
    to each other one. While a worker writes its next gradient the others may still read the one before: one message a
    step is enough."""

    def __init__(self, count: int, size: int) -> None:
        memory = [[mmap.mmap(-1, 4 * size) for _ in range(count)] for _ in range(2)]
        self.gradients = [[np.frombuffer(each, np.float32) for each in of_turn] for of_turn in memory]
        self.count = count
        self._pipes = {(a, b): os.pipe() for a in range(count) for b in range(count) if a != b}

    def meet(self, rank: int) -> None:
        """Returns once all have called it. A worker that is gone ends the others: its pipe is at its end."""
        others = [other for other in range(self.count) if other != rank]
        for other in others:
            os.write(self._pipes[rank, other][1], b".")
        for other in others:
            if not os.read(self._pipes[other, rank][0], 1):
                raise SystemExit("another worker of this job is gone")

    def belong_to(self, rank: int) -> None:
        """Closes the ends that are the others'."""
        for (sender, receiver), (reading, writing) in self._pipes.items():
            if sender != rank:
                os.close(writing)
            if receiver != rank:
                os.close(reading)


def bind(core: int) -> None:
    """Else the kernel decides which workers share a core, differently each time, and mostly for as long as a job runs:
    by chance it would last a third longer."""
    cores = sorted(os.sched_getaffinity(0))[:CORES]
    os.sched_setaffinity(0, {cores[core % len(cores)]})


def train(rank: int, args: argparse.Namespace, data: Digits, workers: Workers, seed: int) -> Network:
    """Each worker keeps the weights, and makes the same steps."""
    workers.belong_to(rank)
    network = Network(args.width, np.zeros(Network.size(args.width), np.float32))
    network.draw(0)
    own = [Network(args.width, of_turn[rank]) for of_turn in workers.gradients]
    velocity, dice, step = np.zeros_like(network.weights), np.random.default_rng(seed), 0
    for _ in range(args.epochs):
        rows = dice.permutation(len(data.labels))
        for begin in range(0, len(rows), args.batch_size):
            batch = rows[begin : begin + args.batch_size]
            network.gradient(data.some(batch[rank :: workers.count]), len(batch), own[step % 2])
            workers.meet(rank)
            velocity *= MOMENTUM
            for each in workers.gradients[step % 2]:
                velocity += each
            network.weights -= np.float32(LEARNING_RATE) * velocity
            step += 1
            if args.pause:
                time.sleep(dice.exponential(args.pause))
    return network


def train_bound(rank: int, args: argparse.Namespace, data: Digits, workers: Workers, seed: int) -> Network:
    bind(args.core + rank)
    return train(rank, args, data, workers, seed)


def report(args: argparse.Namespace, accuracy: float) -> None:
    url = os.environ.get("SCHEDULEARN_REPORT_URL")
    if not url:
        return
    body = {
        "attempt": int(os.environ["SCHEDULEARN_ATTEMPT"]),
        "batch": {"init": args.batch_size, "max": args.batch_size, "atomic": args.batch_size, "accumulation": 0},
        "progress": {"epoch": args.epochs, "epochs": args.epochs, "epoch_samples": EPOCH},
        "metrics": [{"name": "accuracy", "step": args.epochs, "value": accuracy, "at": time.time()}],
    }
    headers = {"Authorization": f"Bearer {os.environ['SCHEDULEARN_JOB_TOKEN']}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers), timeout=30):
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=int(os.environ.get("SCHEDULEARN_EPOCHS", "8")))
    batch = int(os.environ.get("SCHEDULEARN_BATCH_SIZE", "64"))
    parser.add_argument("--batch-size", type=int, default=batch, help="of all workers together")
    parser.add_argument("--width", type=int, default=256, help="units of the hidden layer")
    parser.add_argument("--workers", type=int, default=int(os.environ.get("SCHEDULEARN_NUM_GPUS", "1")))
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each step, in the mean, at random")
    parser.add_argument("--core", type=int, default=0, help="of the first worker; the next one has the next core")
    args = parser.parse_args()
    seed = zlib.crc32(os.environ.get("SCHEDULEARN_JOB_ID", "").encode())
    data = digits()
    fork = multiprocessing.get_context("fork")
    workers = Workers(args.workers, Network.size(args.width))
    seen, test = shifted(data.some(slice(TRAINED))), shifted(data.some(slice(TRAINED, None)))
    given = (args, seen, workers, seed)
    others = [fork.Process(target=train_bound, args=(rank, *given)) for rank in range(1, args.workers)]
    for each in others:
        each.start()
    accuracy = train_bound(0, *given).accuracy(test)
    for each in others:
        each.join()
    report(args, accuracy)
    print(f"{args.epochs} epochs by {args.workers} workers: test accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
