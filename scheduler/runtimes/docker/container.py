"""Conversion between tasks and containers: arguments for the engine, and its answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from docker.types import DeviceRequest, LogConfig, Mount, Ulimit

from schedulearn.scheduler.core.task import EngineState, ObservedTask, TaskSpec
from schedulearn.scheduler.runtimes.docker.volumes import (
    CHECKPOINTS_PATH,
    OUTPUTS_PATH,
    SDK_PATH,
    data_sets,
    mounts,
    shared_data,
)
from schedulearn.scheduler.runtimes.pinning import complete_env

LABEL = "schedulearn.cluster"

# The engine's own copy of the output, until a task is removed. Its `local` format keeps every byte; `json-file` would
# replace all bytes that are not UTF-8.
LOG_CONFIG = LogConfig(type="local", config={"max-size": "16m", "max-file": "4", "compress": "false"})

# Capabilities of root in a container: unpack and read files of other users, switch to another user, and end that user's
# processes. Raw packets, device nodes, chroot and low ports are not among them.
CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")
PIDS = 4096
"""Maximum processes and threads of a container, plus as many per GPU. It confines a fork bomb."""

GPU_ULIMITS = (Ulimit(name="memlock", soft=-1, hard=-1), Ulimit(name="stack", soft=64 << 20, hard=64 << 20))

# The init of each container (tini) passes signals on to the whole process group of its child. If the child is no
# supervisor, the command gets them.
BASE_ENV = {"PYTHONUNBUFFERED": "1", "TINI_KILL_PROCESS_GROUP": "1"}

# A task that writes folders of the hosts runs as an account of the hosts. The image does not know this account, so it
# has no home folder and no name there.
_HOME = "/tmp"  # noqa: S108

SHELL = "/bin/sh"
_SUPERVISOR = f"{SDK_PATH}/schedulearn/worker/supervisor.py"
_USABLE = "import sys; sys.exit(sys.version_info < (3, 6))"
# The init ends with its child, and everything else in the container ends with the init. The child is therefore a
# supervisor, which waits for all processes after SIGTERM. In an image without Python it is this shell. The shell waits
# for all processes too, but can't choose which of them get the signal, nor tell a user's terminal from the job.
_SUPERVISED = f"""
python3 -I -S -c "{_USABLE}" 2>/dev/null && exec python3 -I -S {_SUPERVISOR} "$@"
exec 3>&2 2>/dev/null
trap stopping=1 TERM
trap : HUP INT QUIT ALRM USR1 USR2
(exec "$@" 2>&3 3>&-)
code=$?
while [ "$stopping" ] && kill -0 -1; do sleep 0.1 || break; done
exit $code
"""

# Messages of tini, our supervisor and a shell about a command that can't run, which then exits with 126 or 127.
_NOT_RUN = (
    re.compile(rb"\[FATAL tini \(\d+\)\] exec (.*) failed: (.*)"),
    re.compile(rb"^schedulearn:(?: (?:line )?\d+:)? (?:exec: )?(?:line \d+: )?(.*): (.*)$", re.MULTILINE),
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WORKSPACE = "/workspace"
"""Folder of a job's pushed code."""
NOT_EXECUTABLE, NOT_FOUND = 126, 127
DEAD = "is dead: Docker could not remove it"


def create_arguments(
    api: Any,
    task: TaskSpec,
    cluster_id: str,
    info: Mapping[str, Any],
    python_path: str = "",
    volumes: Mapping[str, str] | None = None,
    *,
    shell: bool = True,
) -> dict[str, Any]:
    """Return the arguments of `APIClient.create_container`.

    `info` is the engine's answer to `info`. `python_path` is the image's PYTHONPATH. `volumes` maps paths in the
    container to volumes of shared data. `shell` says whether the image has `SHELL`."""
    base = {**BASE_ENV, "PYTHONPATH": python_path}
    if task.run_as is not None:
        base |= {"HOME": _HOME, "USER": task.run_as.user, "LOGNAME": task.run_as.user}
    return {
        "image": task.image,
        "name": task.task_id,
        # `argv` is the whole command; an image's own entry point would get it as arguments.
        "entrypoint": supervised(task) if shell else list(task.argv),
        "command": [],
        "environment": complete_env(task, base, SDK_PATH, CHECKPOINTS_PATH, OUTPUTS_PATH, hides_others=True),
        "labels": {
            LABEL: cluster_id,
            "schedulearn.job": task.job_id,
            "schedulearn.attempt": str(task.attempt),
            "schedulearn.rank": str(task.rank),
        },
        "stop_signal": "SIGTERM",
        # The engine creates the folder together with the container.
        **({"working_dir": WORKSPACE} if task.code else {}),
        **({"user": f"{task.run_as.uid}:{task.run_as.gid}"} if task.run_as is not None else {}),
        "host_config": api.create_host_config(
            init=True,
            mounts=[
                *mounts(task.job_id, LABEL, cluster_id),
                *data_sets(task.mounts, task.writable),
                *shared_data(volumes or {}),
                *([Mount(WORKSPACE, None, type="volume")] if task.code and task.run_as is not None else []),
            ],
            shm_size=task.shm_bytes,
            cpu_shares=task.cpu_shares or None,
            nano_cpus=round(task.cpus * 1e9) if task.cpus is not None else None,
            mem_limit=task.memory_bytes,
            memswap_limit=task.memory_bytes,  # no additional swap
            cap_drop=["ALL"],
            # None for an account of the hosts: the files it writes are its own, and stay so.
            cap_add=_capabilities(task),
            group_add=list(map(str, task.run_as.gids)) if task.run_as is not None else [],
            cpuset_cpus=task.binding.cpus or None,
            cpuset_mems=task.binding.memory_nodes or None,
            pids_limit=PIDS * (1 + len(task.gpu_uuids)),
            security_opt=["no-new-privileges"],
            log_config=LOG_CONFIG,
            restart_policy={"Name": "no"},
            network_mode="host" if task.host_network else "bridge",
            ulimits=_ulimits(task, info),
            **gpu_options(task, info),
        ),
    }


def _capabilities(task: TaskSpec) -> list[str]:
    """Return the task's capabilities. An account of the hosts gets none, since it could not use them."""
    if task.run_as is not None:
        return []
    return [*CAPABILITIES, *(["SYS_NICE"] if task.sys_nice and _has_real_gpus(task) else [])]


def _ulimits(task: TaskSpec, info: Mapping[str, Any]) -> list[Ulimit]:
    """Return the limits for NCCL and InfiniBand, which need locked memory.

    Empty for a rootless engine, which may not raise limits."""
    rootless = any("rootless" in str(option) for option in info.get("SecurityOptions") or ())
    return list(GPU_ULIMITS) if task.raise_limits and _has_real_gpus(task) and not rootless else []


def _has_real_gpus(task: TaskSpec) -> bool:
    return bool(task.gpu_uuids) and not task.simulated_gpus


def supervised(task: TaskSpec) -> list[str]:
    """Return the task's command under a supervisor.

    Variables with names that are invalid in a shell are passed by `env`, because a shell drops them."""
    odd = [f"{name}={value}" for name, value in task.env.items() if not _NAME.fullmatch(name)]
    return [SHELL, "-c", _SUPERVISED, "schedulearn", *(["env", *odd] if odd else ()), *task.argv]


def gpu_options(task: TaskSpec, info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the container options that give access to exactly the task's GPUs.

    They are CDI devices, a device request, or the engine's nvidia runtime. The latter two also list the device files.
    Otherwise only the toolkit's hook allows the devices, directly in the kernel, and a reload of systemd revokes that.
    Simulated GPUs exist only in the environment, and no runtime may look for them."""
    runtimes = info.get("Runtimes") or {}
    if task.simulated_gpus or not task.gpu_uuids:
        return {"runtime": "runc"} if info.get("DefaultRuntime") == "nvidia" and "runc" in runtimes else {}
    names = [f"nvidia.com/gpu={uuid}" for uuid in task.gpu_uuids]
    if cdi_devices(info).issuperset(names):
        return {"device_requests": [DeviceRequest(driver="cdi", device_ids=names)]}
    files = {"devices": [f"{path}:{path}:rwm" for path in task.device_files]} if task.device_files else {}
    if "nvidia" in runtimes and not task.gpu_request:
        return {"runtime": "nvidia", **files}
    return {"device_requests": [DeviceRequest(device_ids=list(task.gpu_uuids), capabilities=[["gpu"]])], **files}


def cdi_devices(info: Mapping[str, Any]) -> set[str]:
    """Return the names of the devices with a CDI description on the engine."""
    return {str(device.get("ID", "")) for device in info.get("DiscoveredDevices") or ()}


def has_real_gpus(inspected: Mapping[str, Any]) -> bool:
    """Whether the container has real GPUs, not simulated ones."""
    env = dict(entry.partition("=")[::2] for entry in inspected["Config"].get("Env") or ())
    return bool(env.get("CUDA_VISIBLE_DEVICES"))


def says_blind(output: bytes) -> bool:
    """Whether a program's output shows that its container has lost access to the GPU devices.

    A reload of systemd causes this with some versions of the NVIDIA container toolkit. Only a new container helps."""
    return b"Failed to initialize NVML" in output


def read_task(task_id: str, inspected: Mapping[str, Any]) -> ObservedTask:
    """Convert an answer to `inspect` into a task."""
    state = inspected["State"]
    container = str(inspected.get("Id", ""))
    code = int(state.get("ExitCode") or 0)
    error = str(state.get("Error") or "")
    match state["Status"]:
        case "created" if not failed_to_start(inspected):
            return ObservedTask(task_id, EngineState.CREATED, container=container)
        case "running" | "paused" | "restarting" as status:
            started_at = _time(state.get("StartedAt"))
            paused = status == "paused"
            return ObservedTask(task_id, EngineState.RUNNING, started_at=started_at, paused=paused, container=container)
    started_at, finished_at = _time(state.get("StartedAt")), _time(state.get("FinishedAt"))
    if state["Status"] == "dead" and (code or finished_at is None):
        # The engine tried to remove the container, which ended it; an exit code of 0 is the command's own.
        return replace(stuck(task_id, container, DEAD), started_at=started_at, finished_at=finished_at)
    if started_at is not None and finished_at is not None:
        started_at = min(started_at, finished_at)  # an engine may record the end of a short command before its start
    return ObservedTask(
        task_id,
        EngineState.EXITED,
        exit_code=code,
        oom_killed=bool(state.get("OOMKilled")),
        error=error,
        started_at=started_at,
        finished_at=finished_at,
        container=container,
    )


def listed_task(task_id: str, container: str, status: str) -> ObservedTask:
    """Convert a row of the engine's list into a task, for a container that can't be inspected."""
    if status == "created":
        return ObservedTask(task_id, EngineState.CREATED, container=container)
    return ObservedTask(task_id, EngineState.RUNNING, paused=status == "paused", container=container)


def stuck(task_id: str, container: str, why: str) -> ObservedTask:
    """Return a lost task. Nothing runs in its container, and the engine can't inspect or remove it."""
    return ObservedTask(task_id, EngineState.LOST, error=f"its container {why}", container=container, stuck=why)


def failed_to_start(inspected: Mapping[str, Any]) -> bool:
    """Whether the engine itself tried to run the command and failed."""
    state = inspected["State"]
    return state["Status"] == "created" and int(state.get("ExitCode") or 0) in (NOT_EXECUTABLE, NOT_FOUND)


def why_not_run(log_tail: bytes, code: int) -> str:
    """Return the error of a command that could not run. Empty if the exit code is the command's own."""
    match = next((match for words in _NOT_RUN if (match := words.search(log_tail))), None)
    if match is None:
        return ""
    command, reason = (part.decode(errors="replace").strip() for part in match.groups())
    return f"{command}: command not found" if code == NOT_FOUND else f"{command}: {reason}"


def _time(text: str | None) -> float | None:
    """Parse a time of the engine. None for an empty one, and for the year 1, which stands for never."""
    if not text or text.startswith("0001-"):
        return None
    return datetime.fromisoformat(text).timestamp()
