"""Conversion of a stored job to the keys that its user would write.

These are the five required keys, and those that differ from the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping

from schedulearn.scheduler.core.instants import shown
from schedulearn.scheduler.core.planning.job_family import family_of
from schedulearn.scheduler.core.planning.limits import usual_shm
from schedulearn.scheduler.specs.env_masking import masked
from schedulearn.scheduler.specs.job import ELASTIC_GRACE_S, GRACE_S, MAX_GPUS, JobFields
from schedulearn.scheduler.specs.start_after import delay_text


def written(job: Mapping[str, object]) -> dict[str, object]:
    """Return the keys that a user would write. `job` has its columns and keys. Values of variables are masked."""
    found: dict[str, object] = {}
    filled_in = _filled_in(job)
    for name, field in JobFields.model_fields.items():
        value = job[name]
        default = filled_in[name] if name in filled_in else field.get_default(call_default_factory=True)
        if field.is_required() or value not in (default, None):
            found[name] = value
    if isinstance(code := found.get("code"), Mapping):
        found["code"] = {key: value for key, value in code.items() if value is not None}
    if isinstance(deadline := found.get("deadline"), float):
        found["deadline"] = shown(deadline)
    if isinstance(start_after := found.get("start_after"), float):
        delay = job.get("start_delay")
        found["start_after"] = delay_text(delay) if isinstance(delay, float) else shown(start_after)
    if "env" in found:
        found["env"] = masked(_texts(job["env"]))
    return found


def _filled_in(row: Mapping[str, object]) -> dict[str, object]:
    """Return key -> default that `JobSpec` derives from other keys."""
    bounds = (1, MAX_GPUS) if row["elastic"] else (row["required_gpus"], row["required_gpus"])
    return {
        "min_gpus": bounds[0],
        "max_gpus": bounds[1],
        "grace_period": ELASTIC_GRACE_S if row["elastic"] else GRACE_S,
        "shm_size": usual_shm(int(str(row["required_gpus"]))),
        "family": family_of(str(row["container_image"]), str(row["command"])),
    }


def _texts(pairs: object) -> dict[str, str]:
    return {str(name): str(value) for name, value in pairs.items()} if isinstance(pairs, Mapping) else {}
