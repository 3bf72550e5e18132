"""The example `digits_mxnet`, as `pytorch.py` has it."""

import time

import horovod.mxnet as hvd
import mxnet as mx
from device import Device
from mxnet import autograd, gluon
from options import read_options

args = read_options("digits_mxnet")

from train import evaluate, load_data, make_net  # noqa: E402

import schedulearn.worker.mxnet as worker  # noqa: E402


def main():
    hvd.init()
    mx.random.seed(0)
    (x, y), test = load_data()
    run = worker.Run(args.batch_size, min_local=4)
    device = Device(hvd.local_rank())
    loader = run.loader(gluon.data.ArrayDataset(x[: args.samples], y[: args.samples]))
    net = make_net()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    trainer = run.trainer(net.collect_params(), "nag", {"learning_rate": 0.03, "momentum": 0.9})
    criterion = gluon.loss.SoftmaxCrossEntropyLoss()
    for epoch in run.epochs(args.epochs, net=net):
        began = time.time()
        for images, labels in loader:
            with autograd.record():
                loss = criterion(net(images), labels)
            device.work(len(images))
            loss.backward()
            trainer.step(len(images))
        accuracy = evaluate(net, test, mx.cpu())
        run.log(loss=loss.mean().asscalar(), accuracy=accuracy)
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1} began {began} ended {time.time()} workers {hvd.size()}", flush=True)
    if hvd.rank() == 0:
        print(f"final test accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
