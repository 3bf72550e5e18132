"""Variables that name a job's run for trackers of experiments, such as W&B. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from schedulearn.scheduler.core.planning.job_family import family_of


def tracker_env(
    job_id: str, name: str, family: str, *, container_image: str, command: str, elastic: bool
) -> Mapping[str, str]:
    """Return the variables of W&B: the run's name, and its group if the job states a family.

    An elastic job starts several times, so all its attempts continue one run. MLflow has no such variables."""
    env = {"WANDB_NAME": name}
    if family != family_of(container_image, command):
        env["WANDB_RUN_GROUP"] = family
    if elastic:
        env |= {"WANDB_RUN_ID": job_id, "WANDB_RESUME": "allow"}
    return env
