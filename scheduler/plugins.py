"""Users' own policies: from entry points of installed packages, and from files named in the settings."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import cast

from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.policy import POLICIES, Policy, canonical_name

GROUP = "schedulearn.policies"


def load_policies(files: Sequence[str] = ()) -> list[str]:
    """Adds policies to the registry and returns their names. `files`: `path/to/file.py:ClassName`.

    Raises InvalidError saying which one can't be used and why: a service must not start with another policy than
    its operator wrote.
    """
    added = [_register(point.load(), f"the entry point {point.name}") for point in entry_points(group=GROUP)]
    return added + [_register(_from_file(name), name) for name in files]


def _from_file(name: str) -> object:
    path, _, class_name = name.rpartition(":")
    file = Path(path).expanduser()
    if not class_name or not file.is_file():
        raise InvalidError(f"own policy {name!r}: write path/to/file.py:ClassName, with a file that exists")
    spec = importlib.util.spec_from_file_location(f"schedulearn_policy_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise InvalidError(f"own policy {name!r}: {file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        return getattr(module, class_name)
    except Exception as error:
        raise InvalidError(f"own policy {name!r} can't be loaded: {type(error).__name__}: {error}") from error


def _register(cls: object, source: str) -> str:
    name = getattr(cls, "name", None)
    if not inspect.isclass(cls) or not isinstance(name, str) or not callable(getattr(cls, "allocate", None)):
        raise InvalidError(f"own policy of {source}: it must be a class with a `name` and a method `allocate`")
    policy = cast(type[Policy], cls)
    if POLICIES.get(canonical_name(name), policy) is not policy and inspect.getfile(policy) != inspect.getfile(
        POLICIES[canonical_name(name)]
    ):
        raise InvalidError(f"own policy of {source}: there is a policy named {name!r} already")
    POLICIES[canonical_name(name)] = policy
    return canonical_name(name)
