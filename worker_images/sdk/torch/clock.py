"""Step times on a GPU, by the GPU's own clock.

A script launches kernels and goes on: when its step is over by the clock of the machine, the GPU may have hardly begun.
Events are marks in the GPU's queue. They tell how much time lay between two of them, including idle time. Nothing waits
for them: a step's times are read when the GPU has passed its last mark, a few steps later.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Iterator, NamedTuple

import torch

from schedulearn.worker.instruments import StepTime
from schedulearn.worker.measurements import Kind

MAX_PENDING = 64
"""Maximum number of steps whose marks the GPU has not reached.

If a GPU is further behind, the script itself waits for it."""


class _Marks(NamedTuple):
    began: Any
    computed: Any
    averaged: Any
    ended: Any


class GpuClock:
    """GPU clock of one worker. `api` is torch.cuda."""

    def __init__(self, api: Any = torch.cuda) -> None:
        self._api = api
        self._began: Any = None
        self._computed: Any = None
        self._averaged: Any = None
        self._pending: deque[tuple[Kind | None, int, _Marks]] = deque(maxlen=MAX_PENDING)

    @property
    def is_capturing(self) -> bool:
        """Whether a CUDA graph is being recorded: what runs now is replayed later without this code."""
        return bool(self._api.is_current_stream_capturing())

    def begin(self, device: Any) -> None:
        """Mark the start of a step, before its data are fetched."""
        self._began, self._computed, self._averaged = self._mark(device), None, None

    def computed(self, device: Any) -> None:
        """Mark that this worker's gradients, or a further part of them, are computed.

        If it is called several times, the last call counts."""
        self._computed = self._mark(device)

    def averaged(self, device: Any) -> None:
        """Mark that the gradients are averaged, and the step goes on with them."""
        self._averaged = self._mark(device)

    def end(self, device: Any, kind: Kind | None, passes: int) -> None:
        if self._began is not None:
            marks = _Marks(self._began, self._computed, self._averaged, self._mark(device))
            self._pending.append((kind, passes, marks))
            self._began = None

    def known(self) -> Iterator[StepTime]:
        """Yield the steps that the GPU has finished since the last call, in order."""
        while self._pending and self._pending[0][2].ended.query():
            kind, passes, marks = self._pending.popleft()
            sync = 0.0
            if marks.computed is not None and marks.averaged is not None:
                sync = max(0.0, marks.computed.elapsed_time(marks.averaged)) / 1e3
            yield StepTime(kind, passes, marks.began.elapsed_time(marks.ended) / 1e3, sync)

    def _mark(self, device: Any) -> Any:
        event = self._api.Event(enable_timing=True)
        event.record(self._api.current_stream(device))
        return event
