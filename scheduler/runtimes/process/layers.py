"""Layers of requirements over local environments.

A layer is a virtual environment that sees all packages of the one below it. By itself, a virtual environment made from
another one sees only the packages of the base interpreter. A file in the layer therefore names the package folders of
the environment below. The programs of that environment are rewritten to use the layer's interpreter, so that `torchrun`
and others find the new packages too.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from schedulearn.scheduler.core.job_image import LAYERS, layer_tag
from schedulearn.scheduler.errors import ImageUnavailable, RuntimeFault
from schedulearn.scheduler.private_files import umask_of_user
from schedulearn.scheduler.runtimes import procfs
from schedulearn.scheduler.runtimes.contract import FetchProgress, StoredImage
from schedulearn.scheduler.runtimes.installing import INSTALL_S, installing, is_full, was_cut_short
from schedulearn.scheduler.runtimes.recipes import end_process

_COMPLETE = "complete.json"  # written last
_LOOK_S = 1.0
_FULL = "the disk of the service's environments is full: free disk space there"
_TAIL_BYTES = 2000
_SITES = "import json, site, sys; print(json.dumps([p for p in sys.path if p.endswith('-packages')]))"


class Layers:
    """All layers below `folder`. A layer without its last file is incomplete, and is built again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, image: str, prefix: Path) -> Path | None:
        """Return the image's layer over the environment at `prefix`, if it exists."""
        path = self._path(image)
        made = procfs.read_json(str(path / _COMPLETE))
        return path if made and made["over"] == str(prefix) else None

    def make(self, image: str, prefix: Path, requirements: Sequence[str]) -> Iterator[FetchProgress]:
        """Build the layer and yield progress. Raises ImageUnavailable.

        Closing the generator ends the build; the next call removes the incomplete layer."""
        path = self._path(image)
        if self.find(image, prefix) is not None:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.rmtree(path, ignore_errors=True)
        try:
            yield from self._install(prefix, path, requirements)
        except ImageUnavailable:
            shutil.rmtree(path, ignore_errors=True)
            raise
        procfs.write_json(str(path / _COMPLETE), {"over": str(prefix)})
        yield FetchProgress(100.0, f"installed {len(requirements)} requirements")

    def _install(self, prefix: Path, path: Path, requirements: Sequence[str]) -> Iterator[FetchProgress]:
        python = prefix / "bin" / "python3"
        sites = json.loads(_run(python, "-c", _SITES))
        _run(python, "-m", "venv", "--without-pip", "--system-site-packages", str(path))
        [packages] = (path / "lib").glob("python3*/site-packages")
        lines = [f"import site; site.addsitedir({site!r})" for site in sites]
        (packages / "below.pth").write_text("\n".join(lines) + "\n")
        _copy_programs(prefix / "bin", path / "bin")
        wanted = path / "requirements.txt"
        wanted.write_text("\n".join(requirements) + "\n")
        pip = [sys.executable, "-m", "pip", "--python", str(path / "bin" / "python3"), "install"]
        options = ("--no-input", "--disable-pip-version-check", "--progress-bar=off", "-r", str(wanted))
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                [*pip, *options], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                cwd=path, start_new_session=True, umask=umask_of_user(),
            )  # fmt: skip
            try:
                yield from _follow(process, output, requirements)
            finally:
                end_process(process)

    def path_of(self, prefix: Path) -> str:
        """Return the program folders of an environment and of the one below it, for PATH."""
        made = procfs.read_json(str(prefix / _COMPLETE))
        return f"{prefix / 'bin'}:{Path(made['over']) / 'bin'}" if made else str(prefix / "bin")

    def sizes(self) -> list[StoredImage]:
        complete = sorted(path.parent for path in self._folder.glob(f"*/{_COMPLETE}"))
        return [StoredImage(f"{LAYERS}{path.name}", size := _size(path), size, own=True) for path in complete]

    def remove(self, image: str) -> None:
        """Remove the layer of an image. `image` may also be the layer's name as in `sizes`.

        Files that a task has open stay until it ends."""
        tag = layer_tag(image)
        if tag.startswith(LAYERS) and "/" not in (name := tag.removeprefix(LAYERS)):
            (self._folder / name / _COMPLETE).unlink(missing_ok=True)
            shutil.rmtree(self._folder / name, ignore_errors=True)

    def _path(self, image: str) -> Path:
        return self._folder / layer_tag(image).removeprefix(LAYERS)


def _copy_programs(below: Path, here: Path) -> None:
    """Copy the scripts of the environment below, to be run by this layer's interpreter."""
    for program in below.iterdir():
        copy = here / program.name
        if copy.exists() or copy.is_symlink() or not program.is_file() or program.name.startswith("python"):
            continue
        with program.open("rb") as source:
            if _is_run_by(source, below):
                copy.write_bytes(_run_by(here / "python3") + source.read())
                copy.chmod(0o755)


_LONGEST = 127
"""Maximum length in bytes of a first line that every kernel reads completely."""
_EXEC = b"'''exec' "
_INTERPRETER = re.compile(rb"(?:#!\s*|'''exec' \"?)(/.*)/python[0-9.]*\"?(?: .*)?")


def _is_run_by(source: IO[bytes], folder: Path) -> bool:
    """Whether a program is a script for an interpreter in this folder.

    If True, `source` is positioned after the interpreter line. A long path is on the second line, since kernels limit
    the length of the first."""
    line = source.readline(4096).rstrip()
    if line == b"#!/bin/sh":
        line = source.readline(4096).rstrip()
        if not line.startswith(_EXEC) or source.readline(100).rstrip() != b"' '''":
            return False
    found = _INTERPRETER.fullmatch(line)
    return found is not None and os.path.realpath(found[1]) == os.path.realpath(os.fsencode(folder))


def _run_by(python: Path) -> bytes:
    path = os.fsencode(python)
    if len(path) <= _LONGEST - 3 and b" " not in path:
        return b"#!" + path + b"\n"
    return b"#!/bin/sh\n" + _EXEC + b'"' + path + b'" "$0" "$@"\n' + b"' '''\n"


def _run(program: Path, *words: str) -> str:
    try:
        done = subprocess.run([str(program), *words], capture_output=True, text=True, timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ImageUnavailable(f"no environment can be created on top of {program.parent.parent}: {error}") from error
    if done.returncode < 0:
        raise RuntimeFault(f"no environment was created on top of {program.parent.parent}: the program was killed")
    if done.returncode != 0:
        told = (done.stderr or done.stdout).strip()[-_TAIL_BYTES:]
        if is_full(told):
            raise RuntimeFault(f"no environment was created on top of {program.parent.parent}: {_FULL}")
        raise ImageUnavailable(f"no environment can be created on top of {program.parent.parent}: {told}")
    return done.stdout


def _follow(
    process: subprocess.Popen[bytes], output: IO[bytes], requirements: Sequence[str]
) -> Iterator[FetchProgress]:
    end = time.monotonic() + INSTALL_S
    while True:
        try:
            code = process.wait(_LOOK_S)
            break
        except subprocess.TimeoutExpired:
            if time.monotonic() > end:
                raise ImageUnavailable(f"the requirements were not installed within {INSTALL_S:.0f} s") from None
            yield installing(requirements, _tail(output))
    if was_cut_short(code):
        raise RuntimeFault("the requirements could not be installed: the installer was killed")
    if code != 0:
        told = " ".join(_tail(output))
        if is_full(told):
            raise RuntimeFault(f"the requirements could not be installed: {_FULL}")
        raise ImageUnavailable(f"the requirements can't be installed: {told}")


def _tail(output: IO[bytes]) -> list[str]:
    size = os.fstat(output.fileno()).st_size
    return os.pread(output.fileno(), _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode(errors="replace").split("\n")


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*"))
