"""Reset of a GPU of this machine by `nvidia-smi`."""

from __future__ import annotations

import os
import shutil
import subprocess

from schedulearn.scheduler.errors import RuntimeFault

RESET_S = 120.0
"""Time after which a reset counts as stuck."""


def reset_command(uuid: str) -> list[str]:
    return ["nvidia-smi", "--gpu-reset", "-i", uuid]


def reset_here(uuid: str) -> None:
    """Reset the GPU. Raises RuntimeFault, which says why it can't be reset from here and what to do."""
    by_hand = f"run `{' '.join(reset_command(uuid))}` there as root, then return the GPU"
    if os.geteuid() != 0:
        raise RuntimeFault(f"only root may reset a GPU, but the service runs as uid {os.geteuid()}: {by_hand}")
    if shutil.which("nvidia-smi") is None:
        raise RuntimeFault(f"the service can't find nvidia-smi: {by_hand}")
    try:
        done = subprocess.run(reset_command(uuid), capture_output=True, text=True, timeout=RESET_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise RuntimeFault(f"nvidia-smi did not reset it within {RESET_S:g} s: reboot the host") from error
    if done.returncode:
        raise RuntimeFault(refusal(done.stdout + done.stderr, done.returncode))


def refusal(output: str, code: int) -> str:
    """Return the error message for a reset that `nvidia-smi` did not carry out."""
    said = " ".join(line.strip() for line in output.splitlines() if line.strip())
    return f"nvidia-smi did not reset it (exit code {code}): {said[-500:] or 'no output'}"
