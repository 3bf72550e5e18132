"""Specification of a sweep, and its expansion into runs. Pure."""

from __future__ import annotations

import itertools
import math
import random
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from schedulearn.scheduler.core.command import split_command
from schedulearn.scheduler.core.plain_errors import first_fault
from schedulearn.scheduler.core.suggestions import did_you_mean
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.specs.job import JobFields, JobSpec
from schedulearn.scheduler.specs.texts import Text

MAX_RUNS = 10_000
MAX_PARALLEL = 1000
"""Maximum jobs of a sweep that wait or run at once."""
MAX_TEXT = 2 << 20  # maximum characters of all parameters of all runs
MAX_TRIED = 64 << 20
"""Maximum characters of the jobs of all runs, each of which is checked."""
MAX_TRIALS = 1000
"""Maximum runs of a sweep that learns from results: each question to Optuna has all of them."""
ADAPTIVE = frozenset({"tpe", "cmaes"})
FIRST_RUNS = {"tpe": 8, "cmaes": 1}
"""Random runs at the start of an adaptive search: as many as the sampler chooses at random anyway."""
_MAX_NAMES = 50
_NUMBER_TEXT = 24  # maximum characters of a number
_LARGEST = 1e100  # maximum bound of random numbers, so that differences are finite
_STEP_DIGITS = 12  # significant digits of values with a step: neighbours stay apart
_DIGITS = 6  # significant digits of random numbers, for readability

_NAME = re.compile(r"(env\.)?[A-Za-z_][A-Za-z0-9_-]{0,99}")
_SECRET = re.compile(r"TOKEN|SECRET|PASS|PRIVATE|CREDENTIAL|KEY|AUTH", re.IGNORECASE)
_ENV = "env."
_KEYS = frozenset(JobFields.model_fields) - {"name", "user", "command", "env", "labels", "mounts", "after", "code"}

Whole = Annotated[int, Field(ge=-(1 << 63), le=(1 << 63) - 1)]


def _as_one(value: object, parse: ValidatorFunctionWrapHandler) -> Any:
    """Report one error instead of one per type of the union."""
    try:
        return parse(value)
    except ValidationError as error:
        raise ValueError("must be true, false, a finite number, or text of at most 4096 characters") from error


Value = Annotated[bool | Whole | float | Annotated[Text, Field(max_length=4096)], WrapValidator(_as_one)]
Params = Mapping[str, Value]
"""Parameter -> value in one run."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


_Bounded = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST)]
"""Range of one member of a union, because JSON schema can't express bounds of the union itself."""
_Steps = Annotated[int, Field(gt=0, le=(1 << 63) - 1)]
_Step = Annotated[float, Field(gt=0, le=_LARGEST)]


class Span(_Strict):
    """Range of numbers, including both ends; whole numbers if both are whole."""

    min: Whole | _Bounded
    max: Whole | _Bounded
    scale: Literal["linear", "log"] = Field(
        default="linear", description="log: logarithmic, so that each power of ten is equally likely"
    )
    type: Literal["int", "float"] | None = Field(
        default=None, description="default: int if both ends are whole numbers"
    )
    step: _Steps | _Step | None = Field(default=None, description="distance of the values, counted from min")

    @model_validator(mode="after")
    def _order(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min ({self.min}) is greater than max ({self.max})")
        if self.scale == "log" and self.min <= 0:
            raise ValueError(f"scale: log needs a min above 0, not {self.min}")
        if self.type == "int" and not self._ends_are_whole:
            raise ValueError(f"type: int needs whole numbers, not {self.min} and {self.max}")
        if self.step is not None and self.scale == "log":
            raise ValueError("a range with scale: log has no step: leave one of them out")
        if self.step is not None and self.whole and not isinstance(self.step, int):
            raise ValueError(f"the step of whole numbers is a whole number, not {self.step}")
        return self

    @property
    def _ends_are_whole(self) -> bool:
        return isinstance(self.min, int) and isinstance(self.max, int)

    @property
    def whole(self) -> bool:
        """Whether the values are whole numbers."""
        return self._ends_are_whole and self.type != "float"

    @property
    def last(self) -> int | float:
        """Largest value: `max`, or the last step below it."""
        if self.step is None:
            return self.max
        return self.at(1 - 2**-53)

    def at(self, share: float) -> int | float:
        """Return the number at a share of the range.

        0 <= `share` < 1."""
        low, high, whole = self.min, self.max, self.whole
        if self.step is not None:
            steps = math.floor((high - low) / self.step + 1e-9)
            value = low + math.floor(share * (steps + 1)) * self.step
            return value if whole else min(float(f"{value:.{_STEP_DIGITS}g}"), high)
        end = high + 1 if whole else high
        if self.scale == "log":
            value = math.exp(math.log(low) + share * (math.log(end) - math.log(low)))
        else:
            value = low + share * (end - low)
        rounded = math.floor(value) if whole else float(f"{value:.{_DIGITS}g}")
        return min(max(rounded, low), high)


Values = Annotated[list[Value], Field(min_length=1, max_length=MAX_RUNS, fail_fast=True)]
Runs = Annotated[list[dict[str, Value]], Field(min_length=1, max_length=MAX_RUNS, fail_fast=True)]


class RandomRuns(_Strict):
    """Random runs. The same seed gives the same runs."""

    count: int = Field(ge=1, le=MAX_RUNS)
    seed: int = Field(default=0, ge=0, le=(1 << 63) - 1)
    parameters: dict[str, Span | Values] = Field(min_length=1, max_length=_MAX_NAMES)


class Objective(_Strict):
    """Metric by which runs are compared."""

    name: str = Field(
        default="loss", min_length=1, max_length=64, description="name of the metric, as the script logs it"
    )
    goal: Literal["min", "max"] = "min"


class Goal(_Strict):
    """Metric that a search makes as low or as high as possible."""

    metric: str = Field(min_length=1, max_length=64, description="name of the metric, as the script logs it")
    mode: Literal["min", "max"] = "min"


class Prune(_Strict):
    """Rule that ends runs early, by the values of the metric so far."""

    method: Literal["asha", "hyperband", "median"] = Field(
        description="asha: at each rung, only the best of `factor` runs goes on; hyperband: the same with several "
        "first steps; median: runs below the median of the others end"
    )
    min_step: int | None = Field(
        default=None,
        ge=1,
        le=1 << 53,
        description="first step of the metric at which a run may end; default: one percent of the longest run",
    )
    factor: int | None = Field(
        default=None, ge=2, le=100, description="asha, hyperband: one of this many runs goes on; default: 4 and 3"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.method == "median" and self.factor is not None:
            raise ValueError("prune: median has no factor: leave it out")
        return self


Kind = Literal["grid", "random", "tpe", "cmaes"]
PruneMethod = Literal["asha", "hyperband", "median", "none"]


class SweepSpec(_Strict):
    """Job and parameters of `POST /api/v1/sweeps`."""

    name: Annotated[Text, StringConstraints(strip_whitespace=True, min_length=1, max_length=190)] = Field(
        description="display name; its runs are called NAME-1, NAME-2, ..."
    )
    job: dict[str, Any] = Field(
        description="keys of POST /jobs, except the name; `{lr}` in the command stands for the parameter `lr`"
    )
    grid: dict[str, Values] | None = Field(
        default=None, min_length=1, max_length=_MAX_NAMES, description="parameter -> values; every combination is run"
    )
    random: RandomRuns | None = Field(default=None, description="random values, determined by a seed")
    list: Runs | None = Field(default=None, description="parameters of each run")
    search: Kind | None = Field(
        default=None,
        description="how the runs choose their `parameters`. tpe, cmaes: from the results of earlier runs; random; "
        "grid: every combination",
    )
    parameters: dict[str, Span | Values] | None = Field(
        default=None,
        min_length=1,
        max_length=_MAX_NAMES,
        description="with `search`: parameter -> list of choices, or range of numbers",
    )
    trials: int | None = Field(
        default=None, ge=1, le=MAX_RUNS, description="with `search`: number of runs; tpe and cmaes: at most 1000"
    )
    seed: int | None = Field(
        default=None, ge=0, le=(1 << 31) - 1, description="with `search`: seed of the random choices; default: 0"
    )
    prune: Prune | PruneMethod | None = Field(
        default=None, description="ends runs early whose metric is worse than that of others, in at most 1000 runs"
    )
    goal: Goal | None = Field(default=None, description="another way to write `metric`")
    parallel: int | None = Field(default=None, ge=1, le=MAX_PARALLEL, description="another way to write `max_parallel`")
    max_parallel: int = Field(
        default=100,
        ge=1,
        le=MAX_PARALLEL,
        description="maximum runs that wait or run at once; the other runs have no jobs yet",
    )
    max_failures: int | None = Field(
        default=None,
        ge=0,
        le=MAX_RUNS,
        description="maximum failed runs; after one more, no run starts. Null: no limit",
    )
    metric: Objective = Field(default_factory=Objective)

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._settle()
        ways = {"grid": self.grid, "random": self.random, "list": self.list, "search": self.search}
        given = [name for name, way in ways.items() if way is not None]
        if "name" in self.job:
            raise ValueError("the runs are named after the sweep: leave the name of the job out")
        if len(given) != 1:
            raise ValueError(f"give one of grid, random, list and search, not {' and '.join(given) or 'none'}")
        _check_search(self)
        if (size := self.size) > MAX_RUNS:
            raise ValueError(f"a sweep has at most {MAX_RUNS} runs, not {size}: try fewer values, or random")
        if self.list is not None:
            _check_names_agree(self.list)
        names = self.names
        if not names:
            raise ValueError("the runs have no parameters")
        if self.prune is not None and size > MAX_TRIALS:
            raise ValueError(f"a sweep with prune has at most {MAX_TRIALS} runs, not {size}")
        for name in names:
            _check_name(name, self.job)
        if (size + self._checked) * len(str(self.job)) > MAX_TRIED:
            raise ValueError(
                f"the jobs of {size} runs would have more than {MAX_TRIED >> 20} MiB of text: shorten the command, or "
                "try less"
            )
        self.job = _without(self.job, [name for name in names if not _fills(name, self.job)])
        if _text(self) > MAX_TEXT:
            raise ValueError(f"the parameters of all runs have more than {MAX_TEXT >> 20} MiB of text")
        return self

    def _settle(self) -> None:
        """Replace `goal`, `parallel` and short forms of `prune`, so that a stored sweep has one form."""
        if self.goal is not None:
            if "metric" in self.model_fields_set:
                raise ValueError("goal and metric mean the same: give one of them")
            self.metric = Objective(name=self.goal.metric, goal=self.goal.mode)
            self.goal = None
        if self.parallel is not None:
            if "max_parallel" in self.model_fields_set:
                raise ValueError("parallel and max_parallel mean the same: give one of them")
            self.max_parallel, self.parallel = self.parallel, None
        if isinstance(self.prune, str):
            self.prune = None if self.prune == "none" else Prune(method=self.prune)

    @property
    def is_adaptive(self) -> bool:
        """Whether results of earlier runs decide the parameters of later ones."""
        return self.search in ADAPTIVE

    @property
    def _checked(self) -> int:
        """Number of jobs that are checked for the later runs of an adaptive search."""
        if not self.is_adaptive or self.parameters is None:
            return 0
        return sum(2 if isinstance(choice, Span) else len(choice) for choice in self.parameters.values())

    @property
    def names(self) -> Sequence[str]:
        """Names of the parameters."""
        return parameters_of(
            {
                "grid": self.grid, "random": self.random and self.random.__dict__, "list": self.list,
                "parameters": self.parameters,
            }
        )  # fmt: skip

    @property
    def size(self) -> int:
        """Number of runs."""
        if self.grid is not None:
            return math.prod(len(values) for values in self.grid.values())
        if self.parameters is not None:
            return self.trials or math.prod(len(_levels(choice)) for choice in self.parameters.values())
        return self.random.count if self.random is not None else len(self.list or ())


def parameters_of(sweep: Mapping[str, Any]) -> list[str]:
    """Return the parameter names of a stored sweep specification."""
    if sweep.get("grid") is not None:
        return [*sweep["grid"]]
    if sweep.get("random") is not None:
        return [*sweep["random"]["parameters"]]
    if sweep.get("parameters") is not None:
        return [*sweep["parameters"]]
    return [*sweep["list"][0]] if sweep.get("list") else []


def _check_search(sweep: SweepSpec) -> None:
    """Raise ValueError unless the keys of a search fit each other."""
    search, parameters = sweep.search, sweep.parameters
    if search is None:
        needless = [key for key in ("parameters", "trials", "seed") if key in sweep.model_fields_set]
        if needless:
            raise ValueError(f"{needless[0]} belongs to a search: add `search: tpe`, or leave it out")
        return
    if parameters is None:
        raise ValueError("a search needs parameters: name -> list of choices, or {min, max}")
    if search == "grid":
        _check_grid(sweep.trials, parameters)
    elif sweep.trials is None:
        raise ValueError(f"search: {search} needs trials, the number of runs")
    elif sweep.is_adaptive:
        _check_adaptive(search, sweep.trials, parameters)


def _check_grid(trials: int | None, parameters: Mapping[str, Span | Values]) -> None:
    if trials is not None:
        raise ValueError("search: grid runs every combination: leave trials out")
    for name, choice in parameters.items():
        if isinstance(choice, Span) and choice.step is None and not (choice.whole and choice.scale == "linear"):
            raise ValueError(f"search: grid can't count the values of {name}: give a list, or a step")


def _check_adaptive(search: str, trials: int, parameters: Mapping[str, Span | Values]) -> None:
    if trials > MAX_TRIALS:
        raise ValueError(f"search: {search} has at most {MAX_TRIALS} trials, not {trials}")
    choices = sum(len(choice) for choice in parameters.values() if not isinstance(choice, Span))
    if choices > MAX_TRIALS:
        raise ValueError(f"search: {search} has at most {MAX_TRIALS} choices of all parameters, not {choices}")
    for name, choice in parameters.items():
        if not isinstance(choice, Span) and len({(type(each), each) for each in choice}) < len(choice):
            raise ValueError(f"the choices of {name} repeat: give each once")
    if search == "cmaes" and sum(isinstance(choice, Span) for choice in parameters.values()) < 2:
        raise ValueError("search: cmaes needs two ranges of numbers or more: use tpe")


def _levels(choice: Span | Sequence[Value]) -> Sequence[Value]:
    """Return all values of a parameter of a grid. Ranges have steps there."""
    if not isinstance(choice, Span):
        return choice
    step = choice.step or 1
    count = math.floor((choice.max - choice.min) / step + 1e-9) + 1
    if count > MAX_RUNS:
        raise ValueError(f"a sweep has at most {MAX_RUNS} runs: try a larger step, or random")
    return [choice.at((index + 0.5) / count) for index in range(count)]


def _text(sweep: SweepSpec) -> int:
    """Return the characters of the parameters of all runs, at most."""
    if sweep.is_adaptive and sweep.parameters is not None:
        longest = (
            _NUMBER_TEXT if isinstance(choice, Span) else max(len(text_of(value)) for value in choice)
            for choice in sweep.parameters.values()
        )
        return sweep.size * sum(longest)
    return sum(len(text_of(value)) for run in runs_of(sweep) for value in run.values())


def _check_names_agree(runs: Sequence[Params]) -> None:
    for number, run in enumerate(runs, 1):
        if run.keys() != runs[0].keys():
            differing = ", ".join(sorted(run.keys() ^ runs[0].keys()))
            raise ValueError(f"all runs have the same parameters, and run {number} differs from run 1 in {differing}")


def _check_name(name: str, job: Mapping[str, Any]) -> None:
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"invalid parameter name {name[:100]!r}: use letters, digits, _ and -, or env.NAME")
    if name.startswith(_ENV) and _SECRET.search(name):
        raise ValueError(f"{name} may be a secret, and all users can see parameters: set it in the job's env")
    if not name.startswith(_ENV) and name not in _KEYS and not _fills(name, job):
        raise ValueError(
            f"nothing uses the parameter {name!r}{did_you_mean(name, _KEYS) or '.'} Write {{{name}}} in the job's "
            "command, or call it by a key of a job or by env.NAME"
        )


def _without(job: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return `job` without the keys and variables that parameters replace.

    The original values are neither checked nor used."""
    left = {key: value for key, value in job.items() if key not in names}
    if isinstance(env := left.get("env"), Mapping):
        left["env"] = {name: value for name, value in env.items() if f"{_ENV}{name}" not in names}
    return left


def _fills(name: str, job: Mapping[str, Any]) -> bool:
    """Return whether the command has a placeholder for the parameter.

    The value is then used only there."""
    command = job.get("command")
    return isinstance(command, str) and _placeholder([name]).search(command) is not None


def _placeholder(names: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern of `{name}` for these names.

    It does not match `${name}`, which belongs to the shell."""
    return re.compile(rf"(?<!\$)\{{({'|'.join(map(re.escape, names))})\}}")


def runs_of(sweep: SweepSpec) -> Iterator[dict[str, Value]]:
    """Yield the parameters of each run, in starting order.

    The same sweep always gives the same runs. Of an adaptive search these are the first ones."""
    if sweep.grid is not None:
        for values in itertools.product(*sweep.grid.values()):
            yield dict(zip(sweep.grid, values, strict=True))
    elif sweep.random is not None:
        yield from _random_runs(sweep.random.seed, sweep.random.count, sweep.random.parameters)
    elif sweep.parameters is not None and sweep.search == "grid":
        for values in itertools.product(*map(_levels, sweep.parameters.values())):
            yield dict(zip(sweep.parameters, values, strict=True))
    elif sweep.parameters is not None:
        count = min(sweep.size, FIRST_RUNS.get(sweep.search or "", MAX_RUNS))
        yield from _random_runs(sweep.seed or 0, count, sweep.parameters)
    else:
        yield from map(dict, sweep.list or ())


def _random_runs(seed: int, count: int, parameters: Mapping[str, Span | Values]) -> Iterator[dict[str, Value]]:
    dice = random.Random(seed)  # noqa: S311
    for _ in range(count):
        # `random()` alone gives the same numbers in every version of Python.
        yield {name: _drawn(choice, dice.random()) for name, choice in parameters.items()}


def extremes_of(sweep: SweepSpec) -> Iterator[dict[str, Value]]:
    """Yield parameters with each choice, and with both ends of each range, of an adaptive search.

    Its later runs are unknown when it starts. Their jobs are as valid as these."""
    if not sweep.is_adaptive or sweep.parameters is None:
        return
    first = next(runs_of(sweep))
    for name, choice in sweep.parameters.items():
        for value in [choice.min, choice.last] if isinstance(choice, Span) else choice:
            yield {**first, name: value}


def _drawn(choice: Span | Sequence[Value], share: float) -> Value:
    return choice.at(share) if isinstance(choice, Span) else choice[int(share * len(choice))]


def text_of(value: Value) -> str:
    """Return a value as text for commands and variables."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def job_of(name: str, job: Mapping[str, Any], number: int, params: Params) -> JobSpec:
    """Return the job of a run. Raises InvalidError.

    The error names the run and the key."""
    keys = {**job, "name": f"{name}-{number}"}
    elsewhere = {each: value for each, value in params.items() if not _fills(each, job)}
    if len(elsewhere) < len(params):
        keys["command"] = _filled(job["command"], params)
    keys |= {each: value for each, value in elsewhere.items() if not each.startswith(_ENV)}
    variables = {each.removeprefix(_ENV): text_of(value) for each, value in elsewhere.items() if each.startswith(_ENV)}
    if variables and isinstance(env := job.get("env", {}), Mapping):
        keys["env"] = {**env, **variables}
    try:
        return JobSpec.model_validate(keys)
    except ValidationError as error:
        raise _wrong(error, number, params) from error


def _filled(command: str, params: Params) -> str:
    """Return the command with values in place of placeholders.

    Each value stays within its word, whatever characters it has. Raises InvalidError for a command that can't be split
    into words."""
    pattern = _placeholder([*params])
    return shlex.join(
        pattern.sub(lambda match: text_of(params[match[1]]), word)  # all at once: placeholders in values stay
        for word in split_command(command)
    )


def _wrong(error: ValidationError, number: int, params: Params) -> InvalidError:
    fault = first_fault(error, JobSpec)
    place, message = fault.field, fault.message
    if fault.place and fault.place[0] in params:
        return InvalidError(f"run {number}: {place} = {text_of(params[str(fault.place[0])])}: {message}", field=place)
    field = f"job.{place}" if place else "job"
    return InvalidError(f"run {number}: {place}: {message}" if place else f"run {number}: {message}", field=field)
