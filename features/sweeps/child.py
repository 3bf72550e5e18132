"""A process of its own for what needs scikit-learn: the service never holds its memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys


def ask_child(module: str, question: object, timeout_s: float) -> str:
    """What a module beside this one writes for a question, both as JSON. It has one processor. Raises TimeoutExpired,
    and CalledProcessError with what it said, of `subprocess`."""
    return subprocess.run(
        [sys.executable, "-m", f"{__package__}.{module}"],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    ).stdout
