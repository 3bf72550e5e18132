"""Folders of the product, which an installed package must hold."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("api", "features", "metrics", "scheduler", "worker_images/sdk")


def test_every_folder_with_code_is_a_package() -> None:
    """`find_packages` leaves out a folder without `__init__.py`: a checkout works, and an image or wheel does not."""
    folders = {file.parent for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")}
    assert len(folders) > 40
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []
