"""Memory of a worker's GPU: use by micro-steps, and what would fit.

When the memory runs out, this module reports what would fit.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import torch

from schedulearn.metrics.model.memory import samples_that_fit

LOOKS = 3
"""Number of micro-steps of each size that are measured: asking PyTorch takes 0.1 ms."""
_ASKED = re.compile(r"[Tt]ried to allocate ([\d.]+) (bytes|KiB|MiB|GiB)")
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_GB = 1e9


class GpuMemory:
    """GPU memory of one worker. `api` is torch.cuda."""

    def __init__(self, api: Any = torch.cuda) -> None:
        self._api = api
        self._device: Any = None
        self._peaks: dict[int, float] = {}
        self._looks: dict[int, int] = {}
        self._samples = 0
        self._held = self._before = 0.0

    def begin(self, device: Any, samples: int) -> None:
        """Begin a micro-step of `samples` samples."""
        self._device, self._samples = device, samples
        if self._looks.get(samples, 0) < LOOKS:
            self._held = float(self._api.memory_allocated(device))
            self._before = float(self._api.max_memory_allocated(device))

    def end(self) -> None:
        """End the micro-step, once its step is done.

        Its memory is known where nothing before it took more."""
        looks = self._looks.get(self._samples, 0)
        if self._device is None or looks >= LOOKS:
            return
        self._looks[self._samples] = looks + 1
        peak = float(self._api.max_memory_allocated(self._device))
        if peak > self._before:
            self._peaks[self._samples] = max(peak, self._peaks.get(self._samples, 0.0))

    def explain(self, error: BaseException) -> str:
        """Return an explanation of `error` if the GPU's memory ran out, else an empty string."""
        if self._device is None or not is_out_of_memory(error):
            return ""
        said = f"out of memory on the GPU with {self._samples} samples per micro-step"
        free, total = self._api.mem_get_info(self._device)
        room = float(free + self._api.memory_reserved(self._device))
        asked = float(self._api.max_memory_allocated(self._device)) + _asked(str(error))
        fit = samples_that_fit(self._peaks, self._held, self._samples, asked, room)
        others = f", {(total - room) / _GB:.1f} GB of it used by others" if total - room > 0.05 * total else ""
        of = f"{fit.fixed / _GB:.2f} GB plus {fit.each / _GB:.3f} GB per sample, of {total / _GB:.1f} GB{others}"
        if fit.samples < 1:
            return f"{said}: not even 1 would fit ({of})"
        if not fit.measured:
            # How far the micro-step had come is not known: halving leads to one that fits in a few tries.
            most, half = fit.samples, max(1, fit.samples // 2)
            return f"{said}: at most {most} may fit (at least {of}), and none has yet; set max_local={half} to try half"
        return f"{said}: {fit.samples} would fit ({of}); set max_local={fit.samples} or a smaller batch"

    def explain_uncaught(self) -> None:
        """Print the explanation after the traceback of an error that ends the script."""
        before = sys.excepthook

        def hook(kind: Any, error: Any, trace: Any) -> None:
            before(kind, error, trace)
            try:
                said = self.explain(error)
            except Exception as trouble:  # the GPU may be unable to answer
                said = f"out of memory on the GPU ({trouble})"
            if said:
                print(f"schedulearn: {said}", file=sys.stderr, flush=True)  # noqa: T201

        sys.excepthook = hook


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether a GPU's memory ran out, also where another error followed from it."""
    kind: Any = getattr(torch, "OutOfMemoryError", None) or getattr(torch.cuda, "OutOfMemoryError", ())
    while error is not None:
        if isinstance(error, kind) or "CUDA out of memory" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _asked(message: str) -> float:
    found = _ASKED.search(message)
    return float(found[1]) * _UNITS[found[2]] if found else 0.0
