"""Loader of users' own policies.

They come from entry points of installed packages and from files named in the settings.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TypeGuard

from schedulearn.scheduler.core.policy import MinimalPolicy, Policy
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.policies.registry import POLICIES, canonical_name, with_defaults

GROUP = "schedulearn.policies"
_BUILT_IN = frozenset(POLICIES)


def load_policies(files: Sequence[str] = ()) -> list[str]:
    """Add users' policies to the registry and return their names. `files`: `path/to/file.py:ClassName`.

    Raises InvalidError, which says which policy can't be used and why. A service must not start with another policy
    than its operator wrote.
    """
    found = [(f"the entry point {point.name}", _from_entry_point(point)) for point in entry_points(group=GROUP)]
    found += [(name, _from_file(name)) for name in files]
    added: dict[str, type[Policy]] = {}
    for source, cls in found:
        if not _is_policy(cls):
            raise InvalidError(f"policy from {source}: must be a class with a `name` and a method `allocate`")
        name = canonical_name(cls.name)
        if name in _BUILT_IN | added.keys():
            raise InvalidError(f"policy from {source}: the name {cls.name!r} is already used by another policy")
        added[name] = with_defaults(cls)
    POLICIES.update(added)
    return list(added)


def _is_policy(loaded: object) -> TypeGuard[type[MinimalPolicy]]:
    """Return whether it is a class with a `name` and an `allocate` other than `Policy.allocate`, inherited or not."""
    if not inspect.isclass(loaded) or not (hasattr(loaded, "name") and hasattr(loaded, "allocate")):
        return False
    return isinstance(loaded.name, str) and callable(loaded.allocate) and loaded.allocate is not Policy.allocate


def _from_entry_point(point: EntryPoint) -> object:
    try:
        return point.load()
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise InvalidError(f"own policy of the entry point {point.name} can't be loaded: {why}") from error


def _from_file(name: str) -> object:
    path, _, class_name = name.rpartition(":")
    file = Path(path).expanduser()
    if not class_name or not file.is_file():
        raise InvalidError(f"policy {name!r}: must be path/to/file.py:ClassName, with an existing file")
    spec = importlib.util.spec_from_file_location(f"schedulearn_policy_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise InvalidError(f"policy {name!r}: {file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
        return getattr(module, class_name)
    except Exception as error:
        raise InvalidError(f"policy {name!r} can't be loaded: {type(error).__name__}: {error}") from error
