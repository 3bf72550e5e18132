"""Polling of a job while waiting for it, and its progress line."""

from __future__ import annotations

import builtins
import sys
import time
from datetime import UTC, datetime
from typing import TextIO

from schedulearn.api.client.errors import ClientError
from schedulearn.api.client.job import Job
from schedulearn.api.client.transport import PATIENCE_S, Json

_FIRST_S, _GROWTH, _LONGEST_S = 0.1, 1.3, 1.0
_WIDTH = 24
_MESSAGE = 60


class PollIntervals:
    """Poll intervals of one wait for a job, in seconds."""

    def __init__(self, timeout_s: float | None, reached: bool) -> None:
        """`reached`: the service has answered before."""
        self._timeout_s = timeout_s
        self._reached = reached
        self._began = time.monotonic()
        self._lost_at: float | None = None
        self._pause = _FIRST_S

    def after(self, job: Job) -> float:
        """Return the pause after a poll that was answered. Raises TimeoutError."""
        self._reached = True
        if self._lost_at is not None:
            self._lost_at, self._pause = None, _FIRST_S
        return self._next(f"job {job.id} is still {job.state}")

    def after_loss(self, error: ClientError) -> float:
        """Return the pause after a poll that was not answered.

        Raises `error` if nothing ever answered, or nothing for PATIENCE_S."""
        now = time.monotonic()
        self._lost_at = self._lost_at or now
        if not self._reached or now - self._lost_at > PATIENCE_S:
            raise error
        return self._next(str(error))

    def _next(self, why: str) -> float:
        pause, self._pause = self._pause, min(_LONGEST_S, self._pause * _GROWTH)
        if self._timeout_s is None:
            return pause
        left = self._timeout_s - (time.monotonic() - self._began)
        if left <= 0:
            raise TimeoutError(f"{why} after {self._timeout_s:g} s; it continues")
        return min(pause, left)


class ProgressLine:
    """Progress line that is overwritten on a terminal and in a notebook.

    Elsewhere it prints a line for each change of state."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._over = self._stream.isatty() or hasattr(builtins, "__IPYTHON__")
        self._told = ""
        self._length = 0

    def show(self, job: Job) -> None:
        text = told(job, datetime.now(UTC)) if self._over else f"{job.id} {job.state}: {_short(job.message)}"
        if self._over:
            self._stream.write("\r" + text.ljust(self._length) + ("\n" if job.ended else ""))
            self._length = len(text)
        elif job.state != self._told:
            self._stream.write(text + "\n")
        self._told = job.state
        self._stream.flush()


def told(job: Job, now: datetime) -> str:
    """Return a bar by the predicted run time, the seconds run so far, the state and the message."""
    share = share_done(job, now)
    filled = round(_WIDTH * share)
    bar = "#" * filled + "." * (_WIDTH - filled)
    return f"[{bar}] {share:4.0%} {job.state}, ran {job['run_seconds']:.0f} s: {_short(job.message)}"


def share_done(job: Job, now: datetime) -> float:
    """Return the share of the expected run time that has passed.

    It is 0 if that is unknown, and 1 once the job has ended."""
    if job.ended:
        return 1.0
    ran, eta = float(job["run_seconds"]), job["eta"]
    if not isinstance(eta, dict) or not eta["end"] or not ran:
        return 0.0
    left = max(0.0, (_at(eta["end"]) - max(now, _start(eta, now))).total_seconds())
    return ran / (ran + left) if ran + left else 0.0


def _start(eta: Json, now: datetime) -> datetime:
    return _at(eta["start"]) if eta["start"] else now


def _at(stamp: str) -> datetime:
    return datetime.fromisoformat(stamp)


def _short(text: str) -> str:
    plain = "".join(c if c.isprintable() else " " for c in text)
    return plain if len(plain) <= _MESSAGE else f"{plain[: _MESSAGE - 3]}..."
