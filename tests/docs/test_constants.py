"""Sources of the constants of the policies."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

from schedulearn.scheduler.policies.goodput.tuning import Tuning
from schedulearn.scheduler.policies.registry import POLICIES, parameters_of

ROOT = Path(__file__).parents[2]
POLICY_FILES = ROOT / "scheduler" / "policies"
SOURCE = re.compile(r"(?:\bADR (\d+)|Chosen; no ADR|Numerical|docs/policies\.md|Aptanagi \(2021\))\.\Z")


def described(file: Path) -> dict[str, str]:
    """Return field -> description of the class `Tuning`, on one line."""
    [record] = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)]
    found: dict[str, str] = {}
    for node, after in zip(record.body, record.body[1:], strict=False):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            assert isinstance(after, ast.Expr), node.target.id
            found[node.target.id] = " ".join(str(ast.literal_eval(after.value)).split())
    return found


def public_constants(file: Path) -> set[str]:
    """Return the public names in capitals that a module gives a number, or several."""
    found: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            names = [name.id for name in ast.walk(node.targets[0]) if isinstance(name, ast.Name)]
            if all(isinstance(value, ast.Constant) and isinstance(value.value, int | float) for value in values):
                found |= {name for name in names if name.isupper() and not name.startswith("_")}
    return found


def test_the_page_tells_the_source_of_each_parameter() -> None:
    page = (ROOT / "docs/policies.md").read_text()
    told = page.partition("\n## Where the constants are from\n")[2].partition("\n## ")[0]
    ours = [cls for cls in POLICIES.values() if cls.__module__.startswith("schedulearn.")]  # other tests add theirs
    names = set().union(*(parameters_of(cls) for cls in ours))
    assert "promote" in names
    assert {name for name in names if f"`{name}`" not in told} == set()


def test_each_constant_of_the_policies_is_told_to_be_derived_measured_or_chosen() -> None:
    found = described(POLICY_FILES / "goodput" / "tuning.py")
    assert list(found) == [each.name for each in fields(Tuning)]
    sources = {name: SOURCE.search(text) for name, text in found.items()}
    assert [name for name, source in sources.items() if source is None] == []
    numbers = {source[1] for source in sources.values() if source is not None and source[1]}
    assert [number for number in numbers if not list((ROOT / "docs/adr").glob(f"{int(number):04}-*.md"))] == []


def test_policies_have_no_other_public_constants() -> None:
    assert {file.name: names for file in POLICY_FILES.rglob("*.py") if (names := public_constants(file))} == {}
