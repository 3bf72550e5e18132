"""Record of whether a job's workers ever joined a process group.

Several workers that never join one train the same thing, each for itself, and nothing fails. Each Python worker leaves
an empty file in SCHEDULEARN_JOINING. The file is `joined` when it calls `hvd.init` or `init_process_group`, and `alone`
when it ends without such a call. Nothing is concluded about workers that aren't Python, or that may have met by other
means.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Callable

ALONE, JOINED = "alone", "joined"
_OTHER_MEANS = ("jax", "mpi4py", "paddle", "mindspore", "oneflow", "ray", "pyspark", "cupy.cuda.nccl", "torch_xla")
_SIZES = ("WORLD_SIZE", "HOROVOD_SIZE")
_LAUNCHERS = (b"python", b"horovodrun", b"torchrun", b"pt_elastic")
_HOROVODRUN = b"env HOROVOD_"
"""Start of the command that horovodrun gives to a shell for each worker."""


def watch() -> None:
    """Start watching, if this process is one of several workers; otherwise do nothing."""
    if not any(os.environ.get(name, "").isdigit() and int(os.environ[name]) > 1 for name in _SIZES):
        return
    sys.meta_path.insert(0, _Finder())
    if _is_main():
        atexit.register(_at_exit)


def _at_exit() -> None:
    if not any(name in sys.modules for name in _OTHER_MEANS) and "TF_CONFIG" not in os.environ:
        _leave(ALONE)


def _is_main() -> bool:
    """Whether a launcher started this process: below a shell it may be one step of several."""
    parent = f"/proc/{os.getppid()}"
    try:
        with open(f"{parent}/comm", "rb") as file:
            name = file.read()
        with open(f"{parent}/cmdline", "rb") as file:
            words = file.read(4096).split(b"\0")
    except OSError:
        return False
    return name.startswith(_LAUNCHERS) or (len(words) > 2 and words[2].startswith(_HOROVODRUN))


def _leave(name: str) -> None:
    try:
        with open(os.path.join(os.environ["SCHEDULEARN_JOINING"], name), "w", encoding="utf-8"):
            pass
    except (OSError, KeyError):
        pass


def _noted(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def joins(*arguments: Any, **options: Any) -> Any:
        _leave(JOINED)
        return function(*arguments, **options)

    return joins


def _patch_torch(module: Any) -> None:
    module.init_process_group = _noted(module.init_process_group)


def _patch_horovod(module: Any) -> None:
    module.HorovodBasics.init = _noted(module.HorovodBasics.init)


_PATCHES = {"torch.distributed.distributed_c10d": _patch_torch, "horovod.common.basics": _patch_horovod}


class _Finder:
    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _PATCHES:
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    self._wrap(spec, _PATCHES[name])
                    return spec
        return None

    @staticmethod
    def _wrap(spec: ModuleSpec, patch: Callable[[Any], None]) -> None:
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            try:
                patch(module)
            except Exception:  # another version of the library: nothing can be concluded
                _leave(JOINED)

        loader.exec_module = exec_module
