"""Command line of a task with its launcher, and added environment variables."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import lru_cache

from schedulearn.scheduler.core.words import split_words
from schedulearn.scheduler.errors import InvalidError

# Variables that select a process's GPUs, or identify it to the service. Users can't set them.
RESERVED_PREFIXES = ("NVIDIA_", "SCHEDULEARN_")
RESERVED_NAMES = frozenset({"CUDA_VISIBLE_DEVICES"})
GLOO_TIMEOUT_S = 300
"""Timeout in seconds of a worker that waits for another one during training.

Horovod's default of 30 s ends jobs whose workers merely lack processors. The service, and closed connections, reveal a
worker that is gone.
"""
_LAUNCHERS = ("horovodrun", "torchrun", "mpirun")


@lru_cache(maxsize=64)  # one submission calls it several times, and the runs of a sweep are similar
def split_command(command: str) -> tuple[str, ...]:
    """Return the words of a command line, without a shell. Raises InvalidError for unbalanced quotes or no words."""
    try:
        words = tuple(split_words(command))
    except ValueError as error:
        raise InvalidError(f"the command can't be split into words: {error}", field="command") from error
    if not words:
        raise InvalidError("the command is empty", field="command")
    if "\0" in command:
        raise InvalidError("the command contains a NUL character", field="command")
    return words


def launch_argv(launcher: str, command: str, gpus: int, *, elastic: bool = False) -> tuple[str, ...]:
    """Return the words that run `command` on `gpus` GPUs of one host by `launcher`.

    A command that names its own launcher is unchanged, since jobs of the original Schedulearn did that. Elastic jobs
    use Schedulearn's launcher, since horovodrun kills its workers before they can save a checkpoint.
    """
    words = split_command(command)
    if launcher == "none" or words[0] in _LAUNCHERS:
        return words
    if elastic:
        return ("python3", "-m", "schedulearn.worker.launch", launcher, str(gpus), *words)
    if launcher == "torchrun":
        return ("torchrun", "--standalone", f"--nproc-per-node={gpus}", "--no-python", *words)
    return ("horovodrun", "-np", str(gpus), "-H", f"localhost:{gpus}", *words)


SETUP_FAILED = "schedulearn: the setup command ended with exit code"
"""Beginning of the last output line of a task whose setup failed."""
_SETUP = f'(eval "$1"); code=$?; [ $code = 0 ] || {{ echo "{SETUP_FAILED} $code" >&2; exit $code; }}; shift; exec "$@"'


def with_setup(setup: str | None, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words that run `setup` once and then, if it succeeds, `argv`.

    A shell only runs one after the other. It does not change any word.
    """
    if setup is None:
        return argv
    return ("sh", "-c", _SETUP, "setup", shlex.join(split_command(setup)), *argv)


def names_launcher(command: str) -> bool:
    return split_command(command)[0] in _LAUNCHERS


def gang_command(launcher: str, command: str) -> tuple[str, tuple[str, ...]]:
    """Return (launcher, words) of a multi-host job. The launcher is `none` if the command names its own."""
    words = split_command(command)
    return ("none" if words[0] in _LAUNCHERS else launcher), words


def reserved_env(env: Mapping[str, str]) -> list[str]:
    """Return the names in `env` that a job may not set."""
    return [name for name in env if name.upper().startswith(RESERVED_PREFIXES) or name.upper() in RESERVED_NAMES]


def launcher_env(launcher: str, command: str) -> dict[str, str]:
    """Return variables that workers need in addition to their launcher's defaults. A job's own variables win."""
    if launcher == "horovod" or split_command(command)[0] == "horovodrun":
        return {"HOROVOD_GLOO_TIMEOUT_SECONDS": str(GLOO_TIMEOUT_S)}
    return {}


def worker_env(member: int, generation: int, rank: int) -> dict[str, str]:
    """Return variables with which a container's only worker joins the others of its job."""
    return {
        "SCHEDULEARN_MEMBER": str(member),
        "SCHEDULEARN_GENERATION": str(generation),
        "SCHEDULEARN_RANK": str(rank),
    }


def service_env(
    job_id: str, attempt: int, restarts: int, gpus: int, node_rank: int = 0, num_nodes: int = 1
) -> dict[str, str]:
    """Return variables from which a training script can read about itself."""
    return {
        "SCHEDULEARN_JOB_ID": job_id,
        "SCHEDULEARN_ATTEMPT": str(attempt),
        "SCHEDULEARN_NODE_RANK": str(node_rank),
        "SCHEDULEARN_NUM_NODES": str(num_nodes),
        "SCHEDULEARN_NUM_GPUS": str(gpus),
        "SCHEDULEARN_RESTARTS": str(restarts),
    }
