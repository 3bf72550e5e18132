"""Programs of an environment stay there under requirements of a job's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from schedulearn.scheduler.core.job_image import layer_of, layered
from schedulearn.scheduler.runtimes.process.layers import Layers

LAYERED = layered("schedulearn/pytorch", layer_of(["one"]))
LONG = "x" * 60
SCRIPT = "import sys; print(sys.executable)\n"


def environment(prefix: Path, form: str) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True)
    python = prefix / "bin" / "python3"
    first = {
        "short": f"#!{python}\n",
        "options": f"#! {python} -u\n",
        "long": f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n",
    }[form]
    for name, text in (("torchrun", first + SCRIPT), ("nvcc", "#!/bin/sh\necho binary\n")):
        program = prefix / "bin" / name
        program.write_text(text)
        program.chmod(0o755)
    return prefix


@pytest.mark.parametrize(
    ("form", "below", "here"),
    [
        ("short", "env", f"{LONG}/{LONG}/{LONG}/a b/layers"),
        ("options", "env", "layers"),
        ("long", f"{LONG}/{LONG}/{LONG}/a folder/env", "layers"),
    ],
)
def test_programs_of_the_environment_below_see_the_layer(tmp_path: Path, form: str, below: str, here: str) -> None:
    prefix = environment(tmp_path / below, form)
    layers = Layers(tmp_path / here)
    list(layers.make(LAYERED, prefix, ()))
    layer = layers.find(LAYERED, prefix)
    assert layer is not None
    env = {"PATH": f"{layers.path_of(layer)}:/usr/bin:/bin"}
    done = subprocess.run(["torchrun"], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(layer / "bin" / "python3")
    assert subprocess.run(["nvcc"], env=env, capture_output=True, text=True, check=True).stdout == "binary\n"
    assert layers.path_of(prefix) == str(prefix / "bin")
