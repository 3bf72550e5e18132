"""Masking of possible secrets in jobs that are shown.

Any environment variable may hold a secret, so only values of harmless names are shown. Users who may not change a job
see its commands without words that look like secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from schedulearn.scheduler.core.planning.command_masking import MASK, hide_in_command, hide_in_text
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.specs.job import JobSpec

_HARMLESS = re.compile(
    r"""(NCCL|HOROVOD|GLOO|OMP|MKL|OPENBLAS|KMP|NUMEXPR|GOMP|CUDNN|CUBLAS|TORCH_NCCL|TORCH_DISTRIBUTED|XLA|MALLOC|LC)_\w+
    | PYTHON(UNBUFFERED|HASHSEED|DONTWRITEBYTECODE|OPTIMIZE|FAULTHANDLER|WARNINGS)
    | CUDA_(LAUNCH_BLOCKING|DEVICE_ORDER|CACHE_DISABLE) | PYTORCH_(CUDA_)?ALLOC_CONF | TORCH_(CPP_LOG_LEVEL|LOGS)
    | TF_(CPP_MIN_LOG_LEVEL|FORCE_GPU_ALLOW_GROWTH|ENABLE_ONEDNN_OPTS|DETERMINISTIC_OPS) | TOKENIZERS_PARALLELISM
    | (NUM_|MAX_|MIN_|N_)?(EPOCHS?|STEPS?|WORKERS|THREADS|LAYERS|ITERS?|ITERATIONS) | SEED
    | ((TRAIN|EVAL|VAL|TEST|MAX|MIN|LOCAL|GLOBAL)_)?BATCH(_SIZE)? | (BASE_|MAX_|MIN_)?(LR|LEARNING_RATE)
    | MOMENTUM | WEIGHT_DECAY | DROPOUT | WARMUP(_EPOCHS|_STEPS)? | LOG_?LEVEL | DEBUG | VERBOSE
    | LANG | LANGUAGE | TZ | TERM | SLURM_(NTASKS|NPROCS|TASKS|CPUS|GPUS|MEM|ARRAY|NNODES)(_[A-Z_]+)?
    """,
    re.VERBOSE,
)
_SECRET = re.compile(r"TOKEN(?!IZERS_)|SECRET|PASS|PRIVATE|CREDENTIAL|KEY|AUTH")

_COMMANDS = {"command", "setup", "family"}
_SAME_PROGRAM = ("container_image", "command", "launcher", "mounts", "data", "setup", "requirements")


def masked(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value if _is_harmless(name) else MASK for name, value in env.items()}


@lru_cache(10_000)
def _is_harmless(name: str) -> bool:
    return _HARMLESS.fullmatch(name) is not None and _SECRET.search(name) is None


def without_secrets(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job's columns or keys, with commands as shown to users who may not change it, and without recipients."""
    hidden: dict[str, Any] = {**job}
    if "notify" in job:
        hidden["notify"] = []
    for key in _COMMANDS & job.keys():
        if isinstance(job[key], str):
            hidden[key] = hide_in_command(job[key])
    if isinstance(requirements := job.get("requirements"), list):
        hidden["requirements"] = [hide_in_text(line) for line in requirements]
    return hidden


def shown_job(job: Mapping[str, Any], *, to_owner: bool) -> dict[str, object]:
    """Return the keys of a job that is still to come, with masked values of variables.

    Other users than the owner also don't see secrets in commands."""
    job = job if to_owner else without_secrets(job)
    return {**job, "env": masked({name: str(value) for name, value in job["env"].items()})} if "env" in job else {**job}


def check_no_mask(spec: JobSpec) -> None:
    """Raise InvalidError if a value is a mask, which was copied from a response of the API."""
    lines = spec.requirements if isinstance(spec.requirements, list) else []
    for field, text in (("command", spec.command), ("setup", spec.setup), *(("requirements", line) for line in lines)):
        if text is not None and MASK in text:
            raise InvalidError(
                f"a value in {field} is hidden: enter it again, or better, use a secret (the key `secrets`)",
                field=field,
            )
    for name, value in spec.env.items():
        if value == MASK:
            raise InvalidError(
                f"the value of {name} is hidden: enter it again, or name the job that has it in `env_from`",
                field=f"env.{name}",
            )


def with_values_of(spec: JobSpec, source: Mapping[str, Any]) -> JobSpec:
    """Return `spec` with masks replaced by the values of `source`, the columns and keys of a job.

    Raises InvalidError if a different program than the job's would get the values, since it could disclose them.
    """
    changed = [name for name in _SAME_PROGRAM if getattr(spec, name) != source[name]]
    code: Mapping[str, Any] = source["code"] or {}
    if (spec.code.digest if spec.code is not None else None) != code.get("digest") or (
        spec.code and not spec.code.digest
    ):
        changed.append("code")
    env: Mapping[str, str] = source["env"]
    if env.keys() != spec.env.keys() or any(value not in (MASK, env[name]) for name, value in spec.env.items()):
        changed.append("env")
    if changed:
        raise InvalidError(
            f"hidden values are copied only from a job with the same program; different from job {source['id']}: "
            f"{', '.join(changed)}. Enter the values again, without `env_from`",
            field="env_from",
        )
    return spec.model_copy(update={"env": dict(env)})
