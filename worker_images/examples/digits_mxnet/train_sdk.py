"""Handwritten digits with Gluon and Schedulearn's worker SDK: the batch adapts, and the job can be resized while it
trains.

Compare train.py, from which the net and the data are taken. Lines with (1) to (6) are all that the SDK asks for. It
runs outside Schedulearn too, alone or under horovodrun, and then does nothing special.
"""

import argparse

import horovod.mxnet as hvd
import mxnet as mx
from mxnet import autograd, gluon
from train import device, evaluate, load_data, make_net

import schedulearn.worker.mxnet as worker  # (1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=64, help="of all workers together")
    parser.add_argument("--max-batch", type=int, default=256)
    parser.add_argument("--lr", type=float, default=0.05, help="for this batch size; the SDK scales it with the batch")
    args = parser.parse_args()

    hvd.init()
    context = device()
    mx.random.seed(0)
    train, test = load_data()
    run = worker.Run(args.batch_size, args.max_batch, min_local=4)  # (2) after hvd.init()
    loader = run.loader(gluon.data.ArrayDataset(*train))  # (3) in place of DataLoader, with all of the data
    net = make_net()
    net.initialize(mx.init.Xavier(), ctx=context)
    net.hybridize()
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    options = {"learning_rate": args.lr, "momentum": 0.9}
    trainer = run.trainer(net.collect_params(), "nag", options)  # (4) in place of hvd.DistributedTrainer
    criterion = gluon.loss.SoftmaxCrossEntropyLoss()

    accuracy = 0.0
    for epoch in run.epochs(args.epochs, net=net):  # (5) goes on from the last checkpoint
        for images, labels in loader:
            with autograd.record():
                loss = criterion(net(images.as_in_context(context)), labels.as_in_context(context))
            loss.backward()
            trainer.step(len(images))
        accuracy = evaluate(net, test, context)
        mean = loss.mean().asscalar()
        run.log(loss=mean, accuracy=accuracy)  # (6)
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}/{args.epochs}: loss {mean:.4f}, test accuracy {accuracy:.4f}", flush=True)
    if hvd.rank() == 0:
        print(f"final test accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
