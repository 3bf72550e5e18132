"""Class names of the product, which are used once."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
SERVICE = ("api", "features", "metrics", "scheduler")
TWO_VIEWS = {"AsyncClient", "Event", "Gpu", "Host", "Job", "Roster", "Task"}
"""Tables and records of one noun, in the database, in the core and in the client."""


def test_no_class_name_is_used_twice() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for folder in SERVICE:
        for file in sorted((ROOT / folder).rglob("*.py")):
            if file.name.startswith("sync_"):
                continue
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(str(file.relative_to(ROOT)))
    twice = {name: files for name, files in found.items() if len(files) > 1 and name not in TWO_VIEWS}
    assert twice == {}
