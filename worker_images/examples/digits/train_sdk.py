"""Handwritten digits with Schedulearn's worker SDK: the batch adapts, and the job can be resized while it trains.

Compare train.py, from which the model and the data are taken. Lines with (1) to (6) are all that the SDK asks for. It
runs outside Schedulearn too, alone or under horovodrun, and then does nothing special.
"""

import argparse

import horovod.torch as hvd
import torch
import torch.nn.functional as F
from train import Net, evaluate, load_data

import schedulearn.worker.torch as worker  # (1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=64, help="of all workers together")
    parser.add_argument("--max-batch", type=int, default=512)
    parser.add_argument("--lr", type=float, default=0.05, help="for this batch size; the SDK scales it with the batch")
    args = parser.parse_args()

    hvd.init()
    device = torch.device("cuda", hvd.local_rank()) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cpu":
        torch.set_num_threads(1)
    torch.manual_seed(0)
    train, test = load_data()
    run = worker.Run(args.batch_size, args.max_batch, min_local=4)  # (2) after hvd.init()
    loader = run.loader(train)  # (3) in place of DataLoader and DistributedSampler
    model = Net(image_size=train.tensors[0].shape[-1]).to(device)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, nesterov=True)
    optimizer = run.optimizer(optimizer, model)  # (4) in place of hvd.DistributedOptimizer
    # By progress in epochs: the number of steps in one changes with the batch.
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0 - 0.95 * run.fraction)

    accuracy = 0.0
    for epoch in run.epochs(args.epochs, model=model, schedule=schedule):  # (5) goes on from the last checkpoint
        model.train()
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            schedule.step()
        accuracy = evaluate(model, test, device)
        run.log(loss=loss.item(), accuracy=accuracy)  # (6)
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}/{args.epochs}: loss {loss.item():.4f}, test accuracy {accuracy:.4f}", flush=True)
    if hvd.rank() == 0:
        print(f"final test accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
