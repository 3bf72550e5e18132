"""The check of CUDA that runs in a container, with PyTorch as it would answer."""

from typing import Any

import pytest
from schedulearn.worker_images import cuda_check

from schedulearn.scheduler.runtimes.cuda_check import Checked, read_answer

UUIDS = ["GPU-a", "GPU-b"]


class Tensor:
    def __init__(self, torch: "Torch", index: int, total: float) -> None:
        self.torch, self.index, self.total = torch, index, total

    def __matmul__(self, other: "Tensor") -> "Tensor":
        return Tensor(self.torch, self.index, cuda_check.SIZE**3 + (self.index in self.torch.wrong))

    def to(self, device: str) -> "Tensor":
        pair = (self.index, int(device[-1]))
        if pair in self.torch.no_peers:
            raise RuntimeError("peer access is not supported")
        return Tensor(self.torch, pair[1], self.total)

    def sum(self) -> "Tensor":
        return self

    def item(self) -> float:
        return self.total


class Torch:
    """As much of `torch` as the check uses, of two GPUs."""

    def __init__(self, count: int = 2, wrong: tuple[int, ...] = (), no_peers: tuple[tuple[int, int], ...] = ()) -> None:
        self.count, self.wrong, self.no_peers, self.cuda = count, wrong, no_peers, self

    def is_available(self) -> bool:
        return self.count > 0

    def device_count(self) -> int:
        return self.count

    def ones(self, rows: int, columns: int, device: str) -> Tensor:
        if self.wrong == (-1,):
            raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
        return Tensor(self, int(device[-1]), float(rows * columns))


@pytest.mark.parametrize(
    ("torch", "errors"),
    [
        (Torch(), {}),
        (Torch(count=0), {"": "No CUDA GPUs are available"}),
        (Torch(wrong=(1,)), {1: "a matrix product is wrong"}),
        (Torch(no_peers=((0, 1),)), {0: "a copy to GPU 1 fails: peer access is not supported"}),
        (Torch(wrong=(-1,)), dict.fromkeys((0, 1), "CUDA error: uncorrectable ECC error encountered")),
    ],
)
def test_each_gpu_multiplies_and_copies_to_its_peers(torch: Any, errors: dict[Any, str]) -> None:
    assert cuda_check.check(torch) == errors


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        (b'{"errors": {}}', Checked()),
        (b'noise\n{"errors": {"1": "x"}}\n', Checked(errors={"GPU-b": "x"})),
        (b'{"errors": {"GPU-a": "x"}}', Checked(errors={"GPU-a": "x"})),
        (b'{"errors": {"": "none"}}', Checked(errors={"": "none"})),
        (b'{"skipped": "no PyTorch"}', Checked(skipped="no PyTorch")),
        (b"Traceback\n", Checked(skipped="the check returned no result")),
        (b"", Checked(skipped="the check returned no result")),
    ],
)
def test_its_answer_is_read_and_no_answer_says_nothing(output: bytes, answer: Checked) -> None:
    assert read_answer(output, UUIDS) == answer
