"""docs/policies.md says of each constant of the policies where it is from."""

from __future__ import annotations

import ast
from pathlib import Path

from schedulearn.scheduler.policies.registry import POLICIES, parameters_of

ROOT = Path(__file__).parents[2]


def constants(file: Path) -> set[str]:
    """Public names in capitals that a module gives a number, or several."""
    found: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            names = [name.id for name in ast.walk(node.targets[0]) if isinstance(name, ast.Name)]
            if all(isinstance(value, ast.Constant) and isinstance(value.value, int | float) for value in values):
                found |= {name for name in names if name.isupper() and not name.startswith("_")}
    return found


def test_each_constant_of_the_policies_is_told_to_be_derived_measured_or_chosen() -> None:
    page = (ROOT / "docs/policies.md").read_text()
    told = page.partition("\n## Where the constants are from\n")[2].partition("\n## ")[0]
    files = (ROOT / "scheduler/policies").rglob("*.py")
    ours = [cls for cls in POLICIES.values() if cls.__module__.startswith("schedulearn.")]  # other tests add theirs
    names = set.union(*map(constants, files), *(set(parameters_of(cls)) for cls in ours))
    assert {"LAST_WEIGHT", "CALM_S", "HEADROOM", "promote"} <= names
    assert {name for name in names if f"`{name}`" not in told} == set()
