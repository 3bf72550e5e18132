"""Registry of scheduling policies, which also checks their parameters."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from typing import TypedDict, TypeGuard

from pydantic import TypeAdapter, ValidationError

from schedulearn.scheduler.core.plain_errors import first_fault
from schedulearn.scheduler.core.policy import MinimalPolicy, Policy
from schedulearn.scheduler.core.suggestions import did_you_mean
from schedulearn.scheduler.errors import InvalidError, UnknownPolicyError
from schedulearn.scheduler.policies.classic.afs_l import AfsL
from schedulearn.scheduler.policies.classic.edf import EarliestDeadlineFirst
from schedulearn.scheduler.policies.classic.elastic_fifo import ElasticFifo
from schedulearn.scheduler.policies.classic.elastic_srtf import ElasticShortestRemainingTimeFirst
from schedulearn.scheduler.policies.classic.elastic_tiresias import ElasticTiresias
from schedulearn.scheduler.policies.classic.ffdl import FfDL
from schedulearn.scheduler.policies.classic.fifo import Fifo
from schedulearn.scheduler.policies.classic.gandiva import Gandiva
from schedulearn.scheduler.policies.classic.las import LeastAttainedService
from schedulearn.scheduler.policies.classic.priority import Priority
from schedulearn.scheduler.policies.classic.round_robin import RoundRobin
from schedulearn.scheduler.policies.classic.srtf import ShortestRemainingTimeFirst
from schedulearn.scheduler.policies.classic.tiresias import Tiresias
from schedulearn.scheduler.policies.goodput.policy import GoodputPolicy

POLICIES: dict[str, type[Policy]] = {
    "afs-l": AfsL,
    "edf": EarliestDeadlineFirst,
    "elastic-fifo": ElasticFifo,
    "elastic-srtf": ElasticShortestRemainingTimeFirst,
    "elastic-tiresias": ElasticTiresias,
    "ffdl": FfDL,
    "fifo": Fifo,
    "gandiva": Gandiva,
    "goodput": GoodputPolicy,
    "las": LeastAttainedService,
    "priority": Priority,
    "round-robin": RoundRobin,
    "srtf": ShortestRemainingTimeFirst,
    "tiresias": Tiresias,
}

_MAX_VALUES = 100  # maximum number of values in one parameter, nested ones included
_LARGEST = 1 << 53  # a float holds every integer up to this one exactly
_LONGEST = 1000

ALIASES: Mapping[str, str] = {
    "elastic-srjf": "elastic-srtf",
    "ffdl-optimizer": "ffdl",
    "rr": "round-robin",
    "srjf": "srtf",
}


def canonical_name(algorithm: str) -> str:
    """Return the registered name of a policy.

    Case and separators don't matter. Names of the original Schedulearn are accepted too.
    """
    name = algorithm.strip().lower().replace("_", "-")
    return _NAMES.get(_letters(name), name)


def _letters(name: str) -> str:
    return "".join(c for c in name if c.isalnum())


_NAMES = {_letters(name): name for name in POLICIES} | {_letters(alias): name for alias, name in ALIASES.items()}


def make_policy(algorithm: str, metric: str = "default", **params: object) -> Policy:
    """Return the policy `algorithm` with checked parameters. Raises the errors of `policy_of`."""
    return policy_of(algorithm, metric, params)


def policy_of(algorithm: str, metric: str, params: Mapping[str, object]) -> Policy:
    """Do the same as `make_policy`, with parameters of any name, as in a request.

    Raises UnknownPolicyError (with the valid names) or InvalidError (naming the metric or parameter).
    """
    cls = POLICIES.get(canonical_name(algorithm))
    if cls is None:
        raise UnknownPolicyError(
            f"unknown policy {algorithm!r}; valid: {', '.join(sorted(POLICIES))}", field="algorithm"
        )
    cls = with_defaults(cls)
    if metric not in cls.metrics:
        raise InvalidError(
            f"the policy {cls.name!r} has no metric {metric!r}; valid: {', '.join(cls.metrics)}", field="metric"
        )
    known = parameters_of(cls)
    for key, value in params.items():
        if key not in known:
            valid = ", ".join(sorted(known)) or "none"
            hint = did_you_mean(key, known)
            raise InvalidError(
                f"the policy {cls.name!r} has no parameter {key!r}{hint}; valid: {valid}", field=f"params.{key}"
            )
        _check_parameter(cls, key, value)
    if not dataclasses.is_dataclass(cls):
        return cls()
    given = {**params, "metric": metric} if len(cls.metrics) > 1 else params
    try:
        return TypeAdapter(cls).validate_python(given)
    except ValidationError as error:
        fault = first_fault(error)
        where = fault.field or "params"
        raise InvalidError(f"parameter {where!r} of {cls.name!r}: {fault.message}", field=f"params.{where}") from error


def _check_parameter(cls: type[Policy], key: str, value: object) -> None:
    """Raise InvalidError for a value that can't be stored and shown as JSON, or is too large."""
    checks_left, todo = _MAX_VALUES, [value]
    while todo and checks_left:
        checks_left -= 1
        part = todo.pop()
        if isinstance(part, float | str) and _is_endless(part):
            fault = "must be a finite number"
        elif isinstance(part, int) and abs(part) > _LARGEST:
            fault = f"must be between -{_LARGEST} and {_LARGEST}"
        elif isinstance(part, str) and (len(part) > _LONGEST or not _encodable(part)):
            fault = f"must be text of at most {_LONGEST} characters"
        else:
            todo += [*part, *part.values()] if isinstance(part, Mapping) else part if _many(part) else []
            continue
        raise InvalidError(f"parameter {key!r} of {cls.name!r}: {fault}", field=f"params.{key}")
    if todo:
        raise InvalidError(
            f"parameter {key!r} of {cls.name!r}: holds more than {_MAX_VALUES} values", field=f"params.{key}"
        )


def _many(value: object) -> TypeGuard[Collection[object]]:
    return isinstance(value, (list, tuple, set, frozenset))


def _is_endless(value: float | str) -> bool:
    """Return whether the value is, or would become, an infinite number or NaN."""
    try:
        return not math.isfinite(float(value[:_LONGEST] if isinstance(value, str) else value))
    except ValueError:
        return False


def _encodable(text: str) -> bool:
    """Return whether the text has no lone surrogate. JSON may hold one, but it can't be encoded."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


class Parameter(TypedDict):
    """Description of a policy's parameter, shown by the API and the page."""

    type: str
    default: object
    description: str
    choices: Sequence[str]
    """The valid values, if there are only a few; else empty."""


def parameters_of(cls: type[Policy]) -> dict[str, Parameter]:
    """The parameters of a policy by name: the fields of its dataclass."""
    if not dataclasses.is_dataclass(cls):
        return {}
    return {
        f.name: Parameter(
            type="str" if "choices" in f.metadata else str(f.type),
            default=f.default,
            description=f.metadata.get("doc", ""),
            choices=f.metadata.get("choices", ()),
        )
        for f in dataclasses.fields(cls)
        if f.name != "metric"
    }


def with_defaults(cls: type[MinimalPolicy]) -> type[Policy]:
    """Return `cls` if it inherits from `Policy`, else a subclass of both.

    The subclass takes from `Policy` everything that `cls` does not define.
    """
    if issubclass(cls, Policy):
        return cls
    made = type(cls.__name__, (cls, Policy), {"__module__": cls.__module__, "__doc__": cls.__doc__ or ""})
    if dataclasses.is_dataclass(cls):  # TypeAdapter makes an instance of the class that is decorated
        made = dataclasses.dataclass(frozen=vars(cls)["__dataclass_params__"].frozen)(made)
    assert issubclass(made, Policy)
    return made
