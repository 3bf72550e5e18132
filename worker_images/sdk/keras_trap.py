"""Warning about Horovod's Keras module with Keras 3.

Horovod's Keras module does not support Keras 3: its DistributedOptimizer then averages nothing, and reports no error.
"""

from __future__ import annotations

import re
import sys
from typing import Container, Iterable

MODULES = ("horovod.keras", "horovod.tensorflow.keras")
_IMPORTS = re.compile(r"^\s*(?:import|from)\s+(horovod\.(?:tensorflow\.)?keras)\b", re.MULTILINE)


def warning(version: str, module: str) -> str:
    return (
        f"schedulearn: WARNING: with Keras {version}, {module} does NOT average gradients: each worker trains its own "
        "model, without any error. Use schedulearn.worker.keras (run.optimizer instead of hvd.DistributedOptimizer), "
        "or your own train_step with hvd.DistributedGradientTape, or Keras 2 "
        "(image schedulearn/horovod-tensorflow)."
    )


def warn_of_trap(version: str, imported: Container[str]) -> str | None:
    """Warn on stderr if `version` is Keras 3 and one of Horovod's Keras modules is `imported`."""
    found = next((name for name in MODULES if name in imported), None)
    if found is None or not _is_new(version):
        return None
    text = warning(version, found)
    print(text, file=sys.stderr, flush=True)  # noqa: T201
    return text


def warn_of_scripts(version: str, command: Iterable[str]) -> str | None:
    """Warn likewise before anything is imported, by the text of the scripts that a command names."""
    if not _is_new(version):
        return None
    for word in command:
        if word.endswith(".py"):
            try:
                with open(word, encoding="utf-8", errors="replace") as file:
                    found = _IMPORTS.search(file.read())
            except OSError:
                continue
            if found is not None:
                text = warning(version, found[1])
                print(text, file=sys.stderr, flush=True)  # noqa: T201
                return text
    return None


def _is_new(version: str) -> bool:
    return version.partition(".")[0].isdigit() and int(version.partition(".")[0]) >= 3
