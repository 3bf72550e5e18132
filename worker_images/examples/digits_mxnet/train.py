"""Handwritten digits with MXNet Gluon: a small convolutional network, trained by one or more workers with Horovod.

Alone:          python examples/digits_mxnet/train.py
Two workers:    horovodrun -np 2 -H localhost:2 python examples/digits_mxnet/train.py

The data are scikit-learn's 1797 real digits of 8x8 pixels. What makes an ordinary Gluon script a distributed one is
marked by (1) to (6).
"""

import argparse

import horovod.mxnet as hvd
import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def main():
    args = parse_args()

    # (1) Meet the other workers. Each is a process of its own, with a rank from 0 to size - 1, and its own GPU.
    hvd.init()
    context = device()
    mx.random.seed(args.seed)
    print(f"worker {hvd.rank()} of {hvd.size()} on {context}", flush=True)

    # (2) Share out the data. All do equally many steps: whoever did one more would wait for ever.
    (x, y), test = load_data()
    share = len(x) // hvd.size() * hvd.size()
    train = gluon.data.ArrayDataset(x[hvd.rank() : share : hvd.size()], y[hvd.rank() : share : hvd.size()])
    loader = gluon.data.DataLoader(train, batch_size=args.batch_size, shuffle=True)

    # (3) Start everywhere from the same weights: rank 0's.
    net = make_net()
    net.initialize(mx.init.Xavier(), ctx=context)
    net.hybridize()
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)

    # (4) Average the gradients of all workers in each step, and (5) make the steps as much longer.
    options = {"learning_rate": args.lr * hvd.size(), "momentum": 0.9}
    trainer = hvd.DistributedTrainer(net.collect_params(), mx.optimizer.create("nag", **options))
    criterion = gluon.loss.SoftmaxCrossEntropyLoss()

    for epoch in range(args.epochs):
        for images, labels in loader:
            with autograd.record():
                loss = criterion(net(images.as_in_context(context)), labels.as_in_context(context))
            loss.backward()
            trainer.step(len(images))
        accuracy = evaluate(net, test, context)
        # (6) One voice for all.
        if hvd.rank() == 0:
            mean = loss.mean().asscalar()
            print(f"epoch {epoch + 1}/{args.epochs}: loss {mean:.4f}, test accuracy {accuracy:.4f}", flush=True)
    if hvd.rank() == 0:
        print(f"final test accuracy {accuracy:.4f}", flush=True)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=32, help="of each worker")
    parser.add_argument("--lr", type=float, default=0.03, help="for one worker; N workers take N times as much")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def device():
    return mx.gpu(hvd.local_rank()) if mx.context.num_gpus() else mx.cpu()


def make_net():
    net = gluon.nn.HybridSequential()
    net.add(
        gluon.nn.Conv2D(16, 3, padding=1, activation="relu", in_channels=1),
        gluon.nn.Conv2D(32, 3, padding=1, activation="relu", in_channels=16),
        gluon.nn.MaxPool2D(),
        gluon.nn.Flatten(),
        gluon.nn.Dropout(0.25),
        gluon.nn.Dense(64, activation="relu", in_units=32 * 4 * 4),
        gluon.nn.Dense(10, in_units=64),
    )
    return net


def load_data():
    """Train and test set, pixels scaled to 0..1. The same split in every worker."""
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[:, None]  # (samples, 1 channel, rows, columns)
    x_train, x_test, y_train, y_test = train_test_split(
        images, digits.target.astype(np.float32), test_size=0.2, stratify=digits.target, random_state=0
    )
    return (x_train, y_train), (x_test, y_test)


def evaluate(net, test, context):
    """Fraction of the test set that is right."""
    images, labels = test
    return float((net(mx.nd.array(images, ctx=context)).asnumpy().argmax(axis=1) == labels).mean())


if __name__ == "__main__":
    main()
