"""Handwritten digits with Keras 3 on PyTorch: a small convolutional network, trained by workers with Horovod.

Alone:          python examples/digits_keras3/train.py
Two workers:    horovodrun -np 2 -H localhost:2 python examples/digits_keras3/train.py

The data are scikit-learn's 1797 real digits of 8x8 pixels. Horovod's own Keras module does not know Keras 3 and would
average nothing, without a word: here the optimizer does it. What makes an ordinary Keras script a distributed one is
marked by (1) to (5).
"""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "torch")  # before Keras is imported

import horovod.torch as hvd
import keras
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def main():
    args = parse_args()

    # (1) Meet the other workers. Each is a process of its own, with a rank from 0 to size - 1, and its own GPU.
    hvd.init()
    prepare_devices(hvd.local_rank(), hvd.local_size())
    keras.utils.set_random_seed(args.seed)
    print(f"worker {hvd.rank()} of {hvd.size()}", flush=True)

    # (2) Share out the data.
    x_train, y_train, x_test, y_test = load_data()
    steps = max(1, len(x_train) // (args.batch_size * hvd.size()))
    x_train, y_train = x_train[hvd.rank() :: hvd.size()], y_train[hvd.rank() :: hvd.size()]
    # All do equally many steps: whoever did one more would wait for ever.
    x_train, y_train = x_train[: steps * args.batch_size], y_train[: steps * args.batch_size]

    # (3) Average the gradients of all workers in each step. N workers take N batches a step, so it may be longer.
    model = make_model(x_train.shape[1:])
    optimizer = AveragingSGD(args.lr * hvd.size(), momentum=0.9, nesterov=True)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])

    # (4) Start everywhere from the same weights: rank 0's.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    model.fit(
        x_train,
        y_train,
        batch_size=args.batch_size,
        epochs=args.epochs,
        validation_data=(x_test, y_test),
        callbacks=[Progress(args.epochs)],
        verbose=0,
    )


class AveragingSGD(keras.optimizers.SGD):
    def apply(self, grads, trainable_variables=None):
        averaged = hvd.grouped_allreduce(list(grads), op=hvd.Average, name="gradients")
        super().apply(averaged, trainable_variables)


class Progress(keras.callbacks.Callback):
    """(5) One voice for all."""

    def __init__(self, epochs):
        super().__init__()
        self.epochs = epochs

    def on_epoch_end(self, epoch, logs=None):
        if hvd.rank() == 0:
            accuracy = logs["val_accuracy"]
            print(f"epoch {epoch + 1}/{self.epochs}: loss {logs['loss']:.4f}, test accuracy {accuracy:.4f}", flush=True)
            if epoch + 1 == self.epochs:
                print(f"final test accuracy {accuracy:.4f}", flush=True)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=32, help="of each worker")
    parser.add_argument("--lr", type=float, default=0.05, help="for one worker; N workers take N times as much")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def prepare_devices(local_rank, local_size):
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
    # Workers on one machine share its cores: more threads than cores only wait for each other.
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // local_size))


def make_model(shape):
    return keras.Sequential(
        [
            keras.layers.Input(shape),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.25),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def load_data():
    """Train and test set, pixels scaled to 0..1. The same split in every worker."""
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[..., None]  # (samples, rows, columns, 1 channel)
    x_train, x_test, y_train, y_test = train_test_split(
        images, digits.target, test_size=0.2, stratify=digits.target, random_state=0
    )
    return x_train, y_train, x_test, y_test


if __name__ == "__main__":
    main()
