"""The transformer of train.py with Schedulearn's worker SDK: for Adam, the learning rate follows the batch's root."""

import argparse

import horovod.torch as hvd
import torch
import torch.nn.functional as F
from train import Letters, Transformer, setup

import schedulearn.worker.torch as worker


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64, help="of all workers together")
    parser.add_argument("--max-batch", type=int, default=512)
    args = parser.parse_args()
    hvd.init()
    device = setup()
    data = Letters()
    run = worker.Run(args.batch_size, args.max_batch, min_local=4, scaling="sqrt")
    loader = run.loader(data)
    model = Transformer(len(data.alphabet)).to(device)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = run.optimizer(torch.optim.Adam(model.parameters(), lr=1e-3), model)
    for epoch in run.epochs(args.epochs, model=model):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x.to(device)).flatten(0, 1), y.to(device).flatten())
            loss.backward()
            optimizer.step()
        run.log(loss=loss.item())
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}/{args.epochs}: loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
