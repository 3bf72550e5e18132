"""Handwritten digits with Keras 3 and Schedulearn's worker SDK: the job can be stopped and resized while it trains.

Compare train.py, from which the model and the data are taken. Lines with (1) to (4) are all that the SDK asks for. It
runs outside Schedulearn too, alone or under horovodrun, and then does nothing special.
"""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "torch")  # before Keras is imported

import horovod.torch as hvd
import keras
from train import Progress, load_data, make_model, prepare_devices

import schedulearn.worker.keras as worker  # (1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=64, help="of all workers together")
    parser.add_argument("--lr", type=float, default=0.05, help="for this batch size")
    args = parser.parse_args()

    hvd.init()
    prepare_devices(hvd.local_rank(), hvd.local_size())
    keras.utils.set_random_seed(0)
    x_train, y_train, x_test, y_test = load_data()
    run = worker.Run(args.batch_size)  # (2) after hvd.init()
    model = make_model(x_train.shape[1:])
    optimizer = run.optimizer(keras.optimizers.SGD(args.lr, momentum=0.9, nesterov=True))  # (3) averages
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    # (4) in place of model.fit: shares out the data, goes on from the last checkpoint
    run.fit(
        model,
        x_train,
        y_train,
        epochs=args.epochs,
        validation_data=(x_test, y_test),
        callbacks=[Progress(args.epochs)],
        verbose=0,
    )


if __name__ == "__main__":
    main()
