"""The examples `digits_keras` (Keras 2 on TensorFlow) and `digits_keras3` (on PyTorch), as `pytorch.py` has it."""

import os
import time

from device import Device
from options import read_options

if os.environ["KERAS_BACKEND"] == "tensorflow":
    args = read_options("digits_keras")
    import horovod.tensorflow.keras as hvd
    from tensorflow import keras
else:
    args = read_options("digits_keras3")
    import horovod.torch as hvd
    import keras

from train import load_data, make_model, prepare_devices

import schedulearn.worker.keras as worker


class Steps(keras.callbacks.Callback):
    """The device works in each step; each epoch is told."""

    def __init__(self, device):
        super().__init__()
        self._device = device
        self._began = 0.0

    def on_epoch_begin(self, epoch, logs=None):
        self._began = time.time()

    def on_train_batch_begin(self, batch, logs=None):
        self._device.work(args.batch_size / hvd.size())

    def on_epoch_end(self, epoch, logs=None):
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1} began {self._began} ended {time.time()} workers {hvd.size()}", flush=True)


def main():
    hvd.init()
    prepare_devices(hvd.local_rank(), os.cpu_count())  # one thread a worker
    keras.utils.set_random_seed(0)
    x, y, x_test, y_test = load_data()
    run = worker.Run(args.batch_size)
    model = make_model(x.shape[1:])
    optimizer = run.optimizer(keras.optimizers.SGD(0.05, momentum=0.9))
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    run.fit(
        model,
        x[: args.samples],
        y[: args.samples],
        epochs=args.epochs,
        callbacks=[Steps(Device(hvd.local_rank()))],
        verbose=0,
    )
    if hvd.rank() == 0:
        accuracy = model.evaluate(x_test, y_test, verbose=0)[1]
        print(f"final test accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
