"""Environment variables that the service sets for a worker."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Mapping

from schedulearn.metrics.model.goodput import BatchBounds


@dataclass(frozen=True)
class Environment:
    """The job that this process works for."""

    job_id: str
    attempt: int
    num_nodes: int
    report_url: str | None
    """None: the service can't be reached from here."""
    token: str
    report_interval: float
    checkpoint_dir: str | None
    checkpoint_interval: float
    member: int | None = None
    """Number of this worker, if workers may come and go while the job trains; None: the workers are fixed."""
    generation: int = 0
    """Generation of the workers when this one was started; it rises each time a worker comes or goes."""
    rank: int = 0
    workers: int = 1
    """Rank and number of workers in that generation."""
    batch_size: int | None = None
    """This and the next two fields are the job's own keys, which override the script; None: the script's value."""
    max_batch_size: int | None = None
    epochs: int | None = None
    report_certificate: str | None = None
    """The only certificate to trust at `report_url`, as base64 of its DER.

    None: trust certificates of authorities, and check the name."""

    @classmethod
    def read(cls, env: Mapping[str, str] | None = None) -> Environment | None:
        """Read the environment; None outside Schedulearn."""
        env = os.environ if env is None else env
        job_id = env.get("SCHEDULEARN_JOB_ID")
        if not job_id:
            return None
        member = env.get("SCHEDULEARN_MEMBER") if env.get("SCHEDULEARN_REPORT_URL") else None
        return cls(
            job_id=job_id,
            attempt=int(env.get("SCHEDULEARN_ATTEMPT", "1")),
            num_nodes=int(env.get("SCHEDULEARN_NUM_NODES", "1")),
            report_url=env.get("SCHEDULEARN_REPORT_URL"),
            token=env.get("SCHEDULEARN_JOB_TOKEN", ""),
            report_interval=float(env.get("SCHEDULEARN_REPORT_INTERVAL", "30")),
            checkpoint_dir=env.get("SCHEDULEARN_CHECKPOINT_DIR"),
            checkpoint_interval=float(env.get("SCHEDULEARN_CHECKPOINT_INTERVAL", "300")),
            member=int(member) if member else None,
            generation=int(env.get("SCHEDULEARN_GENERATION", "0")),
            rank=int(env.get("SCHEDULEARN_RANK", "0")),
            workers=int(env.get("SCHEDULEARN_NUM_GPUS", "1")) if member else 1,
            batch_size=_count(env.get("SCHEDULEARN_BATCH_SIZE")),
            max_batch_size=_count(env.get("SCHEDULEARN_MAX_BATCH_SIZE")),
            epochs=_count(env.get("SCHEDULEARN_EPOCHS")),
            report_certificate=env.get("SCHEDULEARN_REPORT_CERTIFICATE"),
        )

    def bounds(self, script: BatchBounds) -> BatchBounds:
        """Return the script's bounds, overridden by the job's keys.

        If the job sets only one of the two sizes, the script's other size is adjusted where they conflict."""
        first = self.batch_size or script.init_batch
        largest = self.max_batch_size or max(script.max_batch, first)
        if self.batch_size is None:
            first = min(first, largest)
        return replace(script, init_batch=first, max_batch=largest)


def _count(text: str | None) -> int | None:
    return int(text) if text else None
