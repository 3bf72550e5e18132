"""Sweep, or job, of an experiment configuration of Determined. Pure."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
_MAX_DEPTH = 8
_MAX_LEVELS = 1000
_DEFAULT_PARALLEL = 16
"""Determined's own default of `max_concurrent_trials`."""
_KNOWN = frozenset({
    "name", "entrypoint", "hyperparameters", "searcher", "resources", "environment", "max_restarts", "labels",
    "description", "project", "workspace",
})  # fmt: skip
_KNOWN_SEARCHER = frozenset({
    "name", "metric", "smaller_is_better", "max_trials", "max_concurrent_trials", "divisor", "source_trial_id",
})  # fmt: skip


class Converted(NamedTuple):
    found: dict[str, Any]
    """Sweep with `search`, or the keys of one job."""
    notes: Sequence[str]
    """What was not translated, or works in another way."""


def from_determined(config: Mapping[str, Any], image: str | None = None) -> Converted:
    """Return the sweep of a configuration; of `searcher: single`, the job. Raises ValueError.

    `image`: container image, if the configuration names none."""
    searcher = _object(config, "searcher")
    notes = [f"{key}: not translated" for key in config if key not in _KNOWN]
    kind = str(searcher.get("name", "single"))
    if kind not in ("single", "random", "grid", "adaptive_asha"):
        raise ValueError(f"searcher.name: can't convert {kind!r}: use single, random, grid or adaptive_asha")
    levels = _flat(_object(config, "hyperparameters"), kind == "grid")
    parameters = {name: choice for name, choice in levels.items() if isinstance(choice, (list, dict))}
    constants = {name: value for name, value in levels.items() if name not in parameters}
    job, more = _job(config, image, parameters, constants)
    notes += more
    if not parameters or kind == "single":
        if parameters:
            raise ValueError(f"hyperparameters.{next(iter(parameters))}: searcher single takes no ranges: give a value")
        return Converted({"name": str(config.get("name", "experiment")), **job}, notes)
    notes += [f"searcher.{key}: not translated" for key in searcher if key not in _KNOWN_SEARCHER]
    notes.append("hyperparameters are options of the command, such as --lr=0.1: read them there")
    return Converted(
        {"name": str(config.get("name", "experiment")), "job": job, **_search(searcher, kind, parameters)}, notes
    )


def _search(searcher: Mapping[str, Any], kind: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"search": "grid" if kind == "grid" else "random", "parameters": dict(parameters)}
    if kind != "grid":
        trials = searcher.get("max_trials")
        if not isinstance(trials, int) or isinstance(trials, bool) or trials < 1:
            raise ValueError("searcher.max_trials: must be a whole number of at least 1")
        found["trials"] = trials
    if kind == "adaptive_asha":
        divisor = searcher.get("divisor", 4)
        found["prune"] = {"method": "asha", "factor": int(divisor) if isinstance(divisor, (int, float)) else 4}
    found["parallel"] = searcher.get("max_concurrent_trials") or _DEFAULT_PARALLEL
    if "metric" in searcher:
        mode = "min" if searcher.get("smaller_is_better", True) else "max"
        found["goal"] = {"metric": str(searcher["metric"]), "mode": mode}
    return found


def _job(
    config: Mapping[str, Any], image: str | None, parameters: Mapping[str, Any], constants: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    entrypoint = config.get("entrypoint")
    if isinstance(entrypoint, list) and entrypoint:
        entrypoint = shlex.join(map(str, entrypoint))
    if not isinstance(entrypoint, str) or not entrypoint.strip():
        raise ValueError("entrypoint: must be a command: a text, or a list of words")
    notes = []
    if re.fullmatch(r"[\w.]+:\w+", entrypoint.strip()):
        notes.append("entrypoint: names a Trial class: write a script that trains, and name it here")
    words = [entrypoint.strip(), *(f"--{name}={shlex.quote(_text(value))}" for name, value in constants.items())]
    words += [f"--{name}={{{name}}}" for name in parameters]
    resources, environment = _object(config, "resources"), _object(config, "environment")
    job: dict[str, Any] = {"command": " ".join(words), "required_gpus": resources.get("slots_per_trial", 1)}
    found = environment.get("image")
    if isinstance(found, Mapping):
        found = found.get("cuda") or found.get("gpu") or found.get("cpu")
    if found or image:
        job["container_image"] = str(found or image)
    variables = environment.get("environment_variables")
    if isinstance(variables, Mapping):
        variables = variables.get("cuda") or variables.get("gpu") or variables.get("cpu")
    if isinstance(variables, list) and variables:
        pairs = [str(each).partition("=") for each in variables]
        job["env"] = {name: value for name, _, value in pairs}
    if "max_restarts" in config:
        job["max_restarts"] = config["max_restarts"]
    if "description" in config:
        job["description"] = str(config["description"])
    labels = {key: str(config[key]) for key in ("workspace", "project") if key in config}
    given = config.get("labels")
    labels |= {str(each): "" for each in given} if isinstance(given, list) else {}
    if labels:
        job["labels"] = labels
    notes += [f"resources.{key}: not translated" for key in resources if key != "slots_per_trial"]
    notes += [
        f"environment.{key}: not translated" for key in environment if key not in ("image", "environment_variables")
    ]
    return job, notes


def _flat(given: Mapping[str, Any], grid: bool, prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """Return name -> constant, list of choices, or range. Nested names are joined with `_`."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"hyperparameters: more than {_MAX_DEPTH} levels")
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = f"{prefix}{key}"
        if _PARAMETER.fullmatch(name) is None:
            raise ValueError(f"hyperparameters.{name[:100]}: invalid name: use letters, digits, _ and -")
        if isinstance(value, Mapping) and "type" not in value:
            found |= _flat(value, grid, f"{name}_", depth + 1)
        elif isinstance(value, Mapping):
            found[name] = _choice(name, value, grid)
        else:
            found[name] = _text(value) if isinstance(value, list) else value
    return found


def _choice(name: str, given: Mapping[str, Any], grid: bool) -> Any:
    kind = given["type"]
    if kind == "const":
        return given.get("val")
    if kind == "categorical":
        values = given.get("vals")
        if not isinstance(values, list) or not values:
            raise ValueError(f"hyperparameters.{name}.vals: must be a list of values")
        return values
    if kind not in ("int", "double", "log"):
        raise ValueError(f"hyperparameters.{name}.type: unknown type {str(kind)[:100]!r}")
    try:
        low, high = float(given["minval"]), float(given["maxval"])
        base = float(given.get("base", 10.0))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"hyperparameters.{name}: minval and maxval must be numbers") from error
    if not (math.isfinite(low) and math.isfinite(high) and math.isfinite(base)):
        raise ValueError(f"hyperparameters.{name}: minval and maxval must be finite numbers")
    if grid:
        return _levels(name, kind, low, high, base, given.get("count"))
    if kind == "log":
        return {"min": _power(name, base, low), "max": _power(name, base, high), "scale": "log", "type": "float"}
    if kind == "int":
        return {"min": int(low), "max": int(high)}
    return {"min": low, "max": high, "type": "float"}


def _power(name: str, base: float, exponent: float) -> float:
    try:
        found = base**exponent
    except (OverflowError, ZeroDivisionError) as error:
        raise ValueError(f"hyperparameters.{name}: {base}^{exponent} is no finite number") from error
    if not isinstance(found, float) or not math.isfinite(found) or found <= 0:
        raise ValueError(f"hyperparameters.{name}: {base}^{exponent} is no finite number above 0")
    return float(f"{found:.6g}")


def _levels(name: str, kind: str, low: float, high: float, base: float, count: Any) -> list[int | float]:
    """Return the values of a grid, at equal distances as Determined has them."""
    if kind == "int" and count is None:
        count = int(high - low) + 1
    if not isinstance(count, int) or not 1 <= count <= _MAX_LEVELS:
        raise ValueError(f"hyperparameters.{name}.count: must be a whole number from 1 to {_MAX_LEVELS}")
    places = [low + (high - low) * index / max(1, count - 1) for index in range(count)]
    if kind == "log":
        return [_power(name, base, place) for place in places]
    return [round(place) for place in places] if kind == "int" else [float(f"{place:.6g}") for place in places]


def _text(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _object(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = config.get(key) or {}
    if not isinstance(found, Mapping):
        raise ValueError(f"{key}: must be an object")
    return found
