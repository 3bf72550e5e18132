"""docs/architecture.md names every folder, the layers, and where things are: all of that is compared with the tree."""

import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text()
PACKAGES = ("api", "features", "scheduler", "metrics", "worker_images")
NOT_CODE = {"worker_images/examples": "whole examples, described in worker_images/README.md"}


def section(title: str) -> str:
    [text] = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    return text


def tracked() -> list[Path]:
    """Files of the repository, relative to its root."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    return [Path(name) for name in names if name and (ROOT / name).exists()]


def folders() -> set[str]:
    """Folders at the top, and all those of our packages that hold Python files of their own."""
    files = tracked()
    top = {file.parts[0] for file in files if len(file.parts) > 1 and not file.parts[0].startswith(".")}
    inner = {str(file.parent) for file in files if file.suffix == ".py" and file.parts[0] in PACKAGES}
    return top | {folder for folder in inner if not any(Path(folder).is_relative_to(other) for other in NOT_CODE)}


def test_the_table_has_every_folder_and_no_other() -> None:
    first = re.findall(r"^\| (`.*?) \|", section("Folders"), re.M)
    named = {name.rstrip("/") for cell in first for name in re.findall(r"`([^`]+)`", cell)}
    nested_below_a_named_one = {"scheduler/store/migrations/versions"}
    assert named == folders() - nested_below_a_named_one


def test_the_layers_are_those_that_import_linter_holds() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [held] = [c["layers"] for c in contracts if c.get("containers") == ["schedulearn.scheduler"]]
    shown = [line.strip() for line in section("Layers").splitlines() if line.startswith("    ")]
    assert shown == held


def test_each_question_names_a_file_and_a_name() -> None:
    lines = re.findall(r"^\| .*\? \| `[\w/]+/` \| (.*) \|$", section("Where things are"), re.M)
    assert len(lines) >= 7
    assert all(re.search(r"`[\w/]+\.py: \w+", line) for line in lines)
