"""Trains on real digits with Keras and the SDK, and writes down which samples each worker saw: what tests look at.

script_keras.py OUT [--epochs N] [--pause S] [--own-data] [--frozen]
"""

import argparse
import json
import os
import time

import keras
import numpy as np
from linear import noise_of_linear
from sklearn.datasets import load_digits

if keras.backend.backend() == "torch":
    import horovod.torch as hvd
    import torch

    torch.set_num_threads(1)
else:
    import horovod.tensorflow as hvd

import schedulearn.worker.keras as worker
from schedulearn.worker.batch import noise_meter

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument("--own-data", action="store_true")
parser.add_argument("--frozen", action="store_true", help="a linear model that learns nothing: for its noise scale")
parser.add_argument("--momentum", type=float, default=0.9)
args = parser.parse_args()

hvd.init()
keras.utils.set_random_seed(hvd.rank())  # different weights to begin with: the SDK has to share rank 0's
digits = load_digits()
index = np.arange(len(digits.target))
x = np.hstack([digits.images.reshape(-1, 64) / 16, index[:, None]]).astype(
    "float32"
)  # the last column tells them apart
y = digits.target


class Forget(keras.layers.Layer):
    """Hands on all but the last column."""

    def call(self, inputs):
        return inputs[:, :64]


class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(args.pause)
        seen.write(json.dumps({"epoch": run.epoch, "step": run.step, "size": hvd.size(), "at": time.time()}) + "\n")


class Told(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        weights = hvd.allgather_object([float(abs(w).sum()) for w in self.model.get_weights()])
        if hvd.rank() == 0:
            same = all(each == weights[0] for each in weights)
            print(
                f"epoch {epoch} accuracy {logs['val_accuracy']:.4f} same {same} weights {sum(weights[0]):.6f}",
                flush=True,
            )


hidden = [] if args.frozen else [keras.layers.Dense(64, "relu")]
model = keras.Sequential([keras.layers.Input((65,)), Forget(), *hidden, keras.layers.Dense(10)])
if args.frozen:
    noise_meter.BUDGET = 1e9  # measure every step
run = worker.Run(args.batch)
model.compile(
    optimizer=run.optimizer(keras.optimizers.SGD(0.0 if args.frozen else 0.1, momentum=args.momentum)),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
attempt = os.environ.get("SCHEDULEARN_ATTEMPT", "0")
with open(os.path.join(args.out, f"seen-{attempt}-{hvd.rank()}.jsonl"), "a", buffering=1) as seen:
    options = {
        "validation_data": (x[1437:], y[1437:]),
        "epochs": args.epochs,
        "callbacks": [Slow(), Told()],
        "verbose": 0,
    }
    if args.own_data:
        mine = slice(hvd.rank(), 1437, hvd.size())
        import tensorflow as tf

        data = tf.data.Dataset.from_tensor_slices((x[mine], y[mine])).shuffle(1000).batch(run.batch.atomic)
        run.fit(model, data.take(1437 // args.batch), **options)
    else:
        run.fit(model, x[:1437], y[:1437], **options)
if hvd.rank() == 0:
    found = {"phi": run.instruments.meter.phi if run.instruments else None, "step": run.step, "workers": hvd.size()}
    if args.frozen:
        found["offline"] = noise_of_linear(x[:1437, :64], y[:1437], *model.get_weights())
    print("final " + json.dumps(found), flush=True)
