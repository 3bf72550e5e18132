"""From an empty home to a followed job: the three commands of docs/laptop.md, over the wheel that the service serves.

The packages come from the package registry that pip and uv know here. With uv on PATH (or the variable UV naming it)
the first command is uv's, else pip's in a new environment. A user approves the login at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from bench.measured_service import Service, compile_all, service, verdict

TOKEN = "bench-client-token"
_KEPT = ("PATH", "LANG", "SSL_CERT_FILE", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_PREFIXES = ("PIP_", "UV_")
_NOT_OURS = ("pip", "setuptools", "wheel")
"""Packages that a new environment brings along."""


def main() -> bool:
    compile_all()
    flags = ("--runtime", "process", "--simulate-gpus", "4")
    env = {"SCHEDULEARN_TOKEN": TOKEN, "SCHEDULEARN_DEFAULT_IMAGE": "plain"}
    with tempfile.TemporaryDirectory() as folder, service(*flags, env=env) as target:
        home = Path(folder)
        began = time.perf_counter()
        where = _install(target, home)
        installed = time.perf_counter()
        command = where / "bin/schedulearn"
        _log_in(target, home, command)
        logged_in = time.perf_counter()
        _run(home, command)
        ended = time.perf_counter()
        installed_mb, bytecode_mb = _sizes(where)
    steps = f"install {installed - began:.1f}, login {logged_in - installed:.1f}, run {ended - logged_in:.1f}"
    print(f"  bytecode that Python made of it: {bytecode_mb:.1f} MB")
    small = verdict("installed", f"{installed_mb:.1f} MB", "<= 25 MB", installed_mb <= 25)
    taken = ended - began
    return (
        verdict("an empty home to a followed job, three commands", f"{taken:.1f} s ({steps})", "<= 60 s", taken <= 60)
        and small
    )


def _install(target: Service, home: Path) -> Path:
    """Return the environment that the first command made."""
    wheel = target.get("/api/v1/client")
    wish = f"schedulearn[cli] @ http://127.0.0.1:{target.port}{wheel['path']}"
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is not None:
        print(f"  uv tool install {wish!r}")
        _do([uv, "tool", "install", "--python", sys.executable, "--quiet", wish], home)
        return home / ".local/share/uv/tools/schedulearn"
    print(f"  pip install {wish!r}, in a new environment")
    _do([sys.executable, "-m", "venv", str(home / "venv")], home)
    _do([str(home / "venv/bin/pip"), "install", "--quiet", wish], home)
    return home / "venv"


def _log_in(target: Service, home: Path, command: Path) -> None:
    url = f"http://127.0.0.1:{target.port}"
    with subprocess.Popen([command, "login", url, "--no-browser"], env=_env(home), stderr=subprocess.PIPE) as asking:
        assert asking.stderr is not None
        code = next(line for line in asking.stderr if b"?code=" in line).decode().strip().rpartition("=")[2]
        request = urllib.request.Request(
            f"{url}/api/v1/logins/{code}/approve", method="POST", data=b"{}",
            headers={"content-type": "application/json", "authorization": f"Bearer {TOKEN}"},
        )  # fmt: skip
        with urllib.request.urlopen(request, timeout=30):
            pass
        asking.stderr.read()
    if asking.returncode:
        raise RuntimeError(f"the login failed with {asking.returncode}")


def _run(home: Path, command: Path) -> None:
    folder = home / "project"
    folder.mkdir()
    (folder / "train.py").write_text("print('hello from the laptop')\n")
    printed = _do([str(command), "run", "--", "python3", "train.py"], home, folder)
    if "hello from the laptop" not in printed:
        raise RuntimeError(f"the job was not followed: {printed}")


def _do(command: Sequence[str], home: Path, folder: Path | None = None) -> str:
    done = subprocess.run(command, env=_env(home), cwd=folder or home, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:3])} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def _env(home: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key in _KEPT or key.startswith(_PREFIXES)}
    return {**kept, "HOME": str(home)}


def _sizes(where: Path) -> tuple[float, float]:
    """Return the MB of what was installed, and of the bytecode that was made of it."""
    installed = bytecode = 0
    for path in where.rglob("*"):
        package = path.relative_to(where).parts[3:4]  # lib/pythonX/site-packages/PACKAGE
        if not path.is_file() or path.is_symlink() or (package and package[0].partition("-")[0] in _NOT_OURS):
            continue
        if path.suffix == ".pyc":
            bytecode += path.stat().st_size
        else:
            installed += path.stat().st_size
    return installed / 1e6, bytecode / 1e6
