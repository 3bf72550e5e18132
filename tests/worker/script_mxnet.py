"""Trains on real digits with Gluon and the SDK, and writes down which samples each worker saw: what tests look at.

script_mxnet.py OUT [--epochs N] [--max-batch M] [--pause S] [--frozen]
"""

import argparse
import json
import os
import time

import horovod.mxnet as hvd
import mxnet as mx
import numpy as np
from linear import noise_of_linear
from mxnet import autograd, gluon
from sklearn.datasets import load_digits

import schedulearn.worker.mxnet as worker
from schedulearn.worker.batch import noise_meter

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--max-batch", type=int)
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument("--momentum", type=float, default=0.9)
parser.add_argument("--frozen", action="store_true", help="a linear model that learns nothing: for its noise scale")
args = parser.parse_args()

hvd.init()
mx.random.seed(0)
digits = load_digits()
x = (digits.images.reshape(-1, 64) / 16).astype("float32")
y = digits.target.astype("float32")
train = gluon.data.ArrayDataset(x[:1437], y[:1437], np.arange(1437))

net = gluon.nn.HybridSequential()
if args.frozen:
    noise_meter.BUDGET = 1e9  # measure every step
    net.add(gluon.nn.Dense(10, in_units=64))
else:
    net.add(gluon.nn.Dense(64, activation="relu", in_units=64), gluon.nn.Dropout(0.1), gluon.nn.Dense(10, in_units=64))
net.initialize(mx.init.Xavier())
net.hybridize()
hvd.broadcast_parameters(net.collect_params(), root_rank=0)
criterion = gluon.loss.SoftmaxCrossEntropyLoss()

run = worker.Run(args.batch, args.max_batch)
loader = run.loader(train)
trainer = run.trainer(
    net.collect_params(), "sgd", {"learning_rate": 0.0 if args.frozen else 0.1, "momentum": args.momentum}
)
attempt = os.environ.get("SCHEDULEARN_ATTEMPT", "0")
with open(os.path.join(args.out, f"seen-{attempt}-{hvd.rank()}.jsonl"), "a", buffering=1) as seen:
    for epoch in run.epochs(args.epochs, net=net):
        for images, labels, index in loader:
            with autograd.record():
                loss = criterion(net(images), labels)
            loss.backward()
            trainer.step(len(images))
            time.sleep(args.pause)
            line = {"epoch": epoch, "step": run.step, "seen": index.asnumpy().tolist(), "at": time.time()}
            line.update({"size": run.workers.size, "weight": run.current.weight, "total": run.batch.total})
            seen.write(json.dumps(line) + "\n")
        accuracy = float((net(mx.nd.array(x[1437:])).asnumpy().argmax(1) == y[1437:]).mean())
        run.log(loss=loss.mean().asscalar(), accuracy=accuracy)
        weights = hvd.allgather_object(
            sum(float(p.data().abs().sum().asscalar()) for p in net.collect_params().values())
        )
        if hvd.rank() == 0:
            same = all(each == weights[0] for each in weights)
            print(f"epoch {epoch} accuracy {accuracy:.4f} same {same} weights {weights[0]:.6f}", flush=True)
if hvd.rank() == 0:
    found = {"phi": run.instruments.meter.phi if run.instruments else None, "step": run.step, "workers": hvd.size()}
    if args.frozen:
        weights = [p.data().asnumpy() for p in net.collect_params().values()]
        found["offline"] = noise_of_linear(x[:1437], y[:1437], weights[0].T, weights[1])
    print("final " + json.dumps(found), flush=True)
