"""Runner of the build scripts of `schedulearn.worker_images`.

A script builds an image or an environment for jobs. It prints lines `progress <0-100> <message>` on stdout, at least
one every 10 s, and at the end `ready <image-or-path>`. Errors go to stderr.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import IO

from schedulearn.scheduler.errors import ImageUnavailable, RuntimeFault
from schedulearn.scheduler.private_files import umask_of_user
from schedulearn.scheduler.runtimes.contract import FetchProgress
from schedulearn.scheduler.runtimes.installing import is_full, was_cut_short

PACKAGE = "schedulearn.worker_images"
FLAVOURS = ("cpu", "cuda12", "cuda13", "keras", "keras-cuda12", "keras-cuda13", "tensorflow", "mxnet")
"""Flavours of our own images, `schedulearn/horovod-<flavour>`. The same list is in versions.env."""
GRACE_S = 10.0
_TAIL_BYTES = 1500
_OURS = re.compile(r"(?:(?:index\.)?docker\.io/)?schedulearn/(.*)")
_BUILT = re.compile(rf"horovod-({'|'.join(FLAVOURS)})(?::latest)?")


def is_ours(image: str) -> bool:
    """Whether a name lies below `schedulearn/`."""
    return _OURS.fullmatch(image) is not None


def flavour_of(image: str) -> str | None:
    """Return the build scripts' name for this image; None if they don't build it."""
    ours = _OURS.fullmatch(image)
    built = _BUILT.fullmatch(ours[1]) if ours is not None else None
    return built[1] if built is not None else None


def recipe_path(name: str) -> Path:
    """Return a file of the package `schedulearn.worker_images`. Raises ImageUnavailable if it is not installed."""
    try:
        path = Path(str(importlib.resources.files(PACKAGE) / name))
    except ModuleNotFoundError as error:
        raise ImageUnavailable(f"the package {PACKAGE} is not installed: reinstall schedulearn") from error
    if not path.is_file():
        raise ImageUnavailable(f"{name} is missing from the package {PACKAGE}: reinstall schedulearn")
    return path


def recipe_digest() -> str:
    """Return a digest of the scripts and versions.

    It changes when an upgrade changes any of them, so that older builds don't count as ready."""
    digest = hashlib.sha256()
    for path in sorted(recipe_path("versions.env").parent.iterdir()):
        if path.suffix in (".sh", ".env"):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def run_recipe(script: Path, *arguments: str, env: Mapping[str, str], what: str) -> Generator[FetchProgress, None, str]:
    """Run one script, yield its progress, and return the value of its `ready` line.

    `env` is added to the service's environment. If the script fails, raises ImageUnavailable with the end of stderr. If
    it was interrupted or a disk is full, raises RuntimeFault. Closing the generator ends the script.
    """
    last = FetchProgress(0.0, f"preparing {what}")
    yield last
    ready = ""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            ["bash", str(script), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **env},
            start_new_session=True,
            umask=umask_of_user(),  # an image's own user must be able to read what is put into it
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                word, _, rest = line.decode(errors="replace").strip().partition(" ")
                if word == "progress":
                    last = _parse(rest, last)
                    yield last
                elif word == "ready":
                    ready = rest
            code = process.wait()
        finally:
            end_process(process)
            process.stdout.close()
        if code != 0 or not ready:
            words = _last_words(errors)
            kind = RuntimeFault if was_cut_short(code, words) or is_full(words) else ImageUnavailable
            raise kind(f"{what} could not be built: {script.name} ended with exit code {code}. {words}")
    return ready


def end_process(process: subprocess.Popen[bytes]) -> None:
    """End a process and everything it started."""
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(timeout=GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _parse(rest: str, last: FetchProgress) -> FetchProgress:
    number, _, message = rest.partition(" ")
    try:
        percent = float(number)
    except ValueError:
        percent = last.percent
    return FetchProgress(max(last.percent, min(100.0, percent)), message)


def _last_words(errors: IO[bytes]) -> str:
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - _TAIL_BYTES))
    return errors.read().decode(errors="replace").strip()
