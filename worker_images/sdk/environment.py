"""What the service tells a worker about itself, by environment variables."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Mapping


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
    """The number of this worker, of those that come and go while the job trains; None: they stay the same."""
    generation: int = 0
    """Of the workers, when this one was started: raised each time that one comes or goes."""
    rank: int = 0
    workers: int = 1
    """Rank and number of workers in that generation."""

    @classmethod
    def read(cls, env: Mapping[str, str] | None = None) -> Environment | None:
        """None outside Schedulearn."""
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
        )
