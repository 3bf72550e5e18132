"""Lookup of the keys that a nested value accepts, for suggestions."""

from __future__ import annotations

from collections.abc import Sequence
from types import UnionType
from typing import Annotated, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel


def keys_at(kind: object, place: Sequence[int | str]) -> list[str]:
    """Return the keys of the model at `place` in a value of type `kind`; empty if there is no model."""
    for part in place:
        kind = _inner(kind)
        if isinstance(part, int) and get_origin(kind) is list:
            kind = get_args(kind)[0]
        elif _is_model(kind) and part in kind.model_fields:
            kind = kind.model_fields[part].annotation
        else:
            return []
    kind = _inner(kind)
    return list(kind.model_fields) if _is_model(kind) else []


def _inner(kind: object) -> object:
    """Return a type without `Annotated` and `| None`."""
    while get_origin(kind) in (Annotated, Union, UnionType):
        kind = next((each for each in get_args(kind) if each is not type(None)), None)
    return kind


def _is_model(kind: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
