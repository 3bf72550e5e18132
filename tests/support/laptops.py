"""An empty environment with the served wheel and what its extra `cli` needs, and nothing else.

The packages are copied from the tests' own environment: nothing comes from a registry.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_WINDOWS_LIKE = Path(__file__).with_name("windows_like.py")


@dataclass(frozen=True)
class Laptop:
    """A home folder and a Python of its own."""

    home: Path
    python: Path

    def run(self, *arguments: str, code: int = 0, windows: bool = False, cwd: Path | None = None, **env: str) -> str:
        """The output of one command. `windows`: without the modules and names that only Unix has."""
        program = [str(_WINDOWS_LIKE)] if windows else ["-m", "schedulearn.main"]
        known = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", **env}
        done = subprocess.run(
            [self.python, *program, *arguments], env=known, cwd=cwd or self.home, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout + done.stderr


def make_laptop(folder: Path, wheel: bytes) -> Laptop:
    home = folder / "home"
    home.mkdir()
    venv.create(folder / "venv", symlinks=True, with_pip=False)
    python = folder / "venv/bin/python"
    site = folder / f"venv/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        archive.extractall(site)
        [metadata] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    ours = Distribution.at(site / Path(metadata).parent)
    for each in _needed(ours, "cli"):
        _copy(each, site)
    return Laptop(home, python)


def _needed(root: Distribution, extra: str) -> list[Distribution]:
    """The distributions that an extra needs, and what those need."""
    found: dict[str, Distribution] = {}
    waiting = [(root, extra)]
    while waiting:
        asking, wish = waiting.pop()
        for line in asking.requires or ():
            requirement = Requirement(line)
            name = canonicalize_name(requirement.name)
            if name in found or (requirement.marker and not requirement.marker.evaluate({"extra": wish})):
                continue
            found[name] = distribution(name)
            waiting.append((found[name], ""))
    return list(found.values())


def _copy(package: Distribution, site: Path) -> None:
    for file in package.files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts:
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(os.fspath(package.locate_file(file)), target)
