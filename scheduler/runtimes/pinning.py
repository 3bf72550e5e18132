"""Task checks and environment variables that all engines share."""

from __future__ import annotations

from collections.abc import Mapping

from schedulearn.scheduler.core.task import TaskSpec, parse_task_id
from schedulearn.scheduler.errors import StartRefused

# The NVIDIA container runtime's value for "no GPUs". An empty value would work too, but looks like a mistake.
NO_GPU = "void"


def check_task(task: TaskSpec) -> None:
    """Raise StartRefused for a task that no engine can run.

    Examples are an invalid id, an empty command, and bytes that exec can't pass on."""
    if parse_task_id(task.task_id) is None:
        raise StartRefused(f"{task.task_id!r} is not a task id: a job id may have only lower-case letters and digits")
    if not task.argv or not task.argv[0]:
        raise StartRefused("the command is empty", field="command")
    if any("\0" in word for word in task.argv):
        raise StartRefused("the command must not contain a NUL character", field="command")
    for target, source in task.mounts.items():
        if not source:
            raise StartRefused(
                f"the data set for {target} is no longer declared: see the setting data_sets", field="mounts"
            )
    if task.writable and task.run_as is None:
        raise StartRefused(
            f"{', '.join(task.writable)} is a writable folder of the hosts, but the job's user has no uid, or may no "
            "longer write it: ask an admin (schedulearn users ids, setting writable_data_sets), and submit the job "
            "again",
            field="mounts",
        )
    for name, value in task.env.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise StartRefused(
                f"invalid environment variable {name!r}: '=' in its name and NUL characters are not allowed",
                field="env",
            )


def complete_env(
    task: TaskSpec,
    base: Mapping[str, str],
    sdk: str = "",
    checkpoints: str = "",
    outputs: str = "",
    *,
    hides_others: bool = False,
) -> dict[str, str]:
    """Return the task's complete environment: `base`, the task's own variables, then its id and GPUs.

    The id and the GPUs come last, so that no other variable can change or widen them.

    `sdk` is the folder of the SDK, which comes first on PYTHONPATH. `checkpoints` and `outputs` are the job's folders.

    `hides_others` means that the engine hides all other GPUs from the task. CUDA_VISIBLE_DEVICES then counts from 0,
    since many programs expect numbers; otherwise it holds the UUIDs. It is empty for simulated GPUs, so that their task
    finds no real ones.
    """
    uuids = ",".join(task.gpu_uuids)
    numbers = ",".join(str(number) for number in range(len(task.gpu_uuids)))
    user_path = task.env.get("PYTHONPATH", base.get("PYTHONPATH", ""))
    return {
        **base,
        **task.env,
        **({"PYTHONPATH": ":".join(filter(None, (sdk, user_path)))} if sdk else {}),
        **({"SCHEDULEARN_CHECKPOINT_DIR": checkpoints} if checkpoints else {}),
        **({"SCHEDULEARN_OUTPUT_DIR": outputs} if outputs else {}),
        "SCHEDULEARN_TASK": task.task_id,
        "NVIDIA_VISIBLE_DEVICES": uuids or NO_GPU,
        "CUDA_VISIBLE_DEVICES": "" if task.simulated_gpus else numbers if hides_others else uuids,
    }
