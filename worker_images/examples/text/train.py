"""A small transformer that learns to continue Shakespeare's sonnets letter by letter, with Horovod."""

import argparse
from pathlib import Path

import horovod.torch as hvd
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

CONTEXT = 48


class Letters(Dataset):
    """Every stretch of CONTEXT letters of the text, with the letters that follow each."""

    def __init__(self):
        text = (Path(__file__).parent / "sonnets.txt").read_text()
        self.alphabet = sorted(set(text))
        self.codes = torch.tensor([self.alphabet.index(letter) for letter in text])

    def __len__(self):
        return len(self.codes) - CONTEXT

    def __getitem__(self, index):
        piece = self.codes[index : index + CONTEXT + 1]
        return piece[:-1], piece[1:]


class Transformer(nn.Module):
    def __init__(self, letters, width=64, layers=2):
        super().__init__()
        self.letter = nn.Embedding(letters, width)
        self.place = nn.Parameter(torch.zeros(CONTEXT, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, letters)
        self.register_buffer("future", nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def forward(self, x):
        return self.head(self.layers(self.letter(x) + self.place, mask=self.future))


def setup():
    """The device of this worker."""
    torch.manual_seed(0)
    if torch.cuda.is_available():
        return torch.device("cuda", hvd.local_rank())
    torch.set_num_threads(1)
    return torch.device("cpu")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64, help="of each worker")
    args = parser.parse_args()
    hvd.init()
    device = setup()
    data = Letters()
    sampler = DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank())
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)
    model = Transformer(len(data.alphabet)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x.to(device)).flatten(0, 1), y.to(device).flatten())
            loss.backward()
            optimizer.step()
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}/{args.epochs}: loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
