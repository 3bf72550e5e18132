"""Trains on digits by a loop of its own with FSDP2; see adapted.py."""

from script_ddp import main
from torch import nn
from torch.distributed.fsdp import fully_shard


def shard(net):
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    return fully_shard(net)


main(shard)
