"""Specification of an experiment: factors with levels, and a design. Pure.

An experiment becomes a sweep.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from schedulearn.features.sweeps.spec import (
    MAX_PARALLEL,
    MAX_RUNS,
    Objective,
    RandomRuns,
    Span,
    SweepSpec,
    Value,
    Values,
    runs_of,
)
from schedulearn.scheduler.core.plain_errors import first_fault
from schedulearn.scheduler.specs.texts import Text

MAX_FACTORS = 20
REPLICATION = "replication"
"""Placeholder in the command for the number of the replication, from 1; for example as a seed."""

Design = Literal["2k", "factorial", "grid", "random"]


class Levels(Span):
    """Range of numbers.

    `levels`: number of levels at equal distances, for the design `grid`."""

    levels: int | None = Field(default=None, ge=2, le=1000)

    def cut(self) -> list[Value]:
        """Return the distinct levels, including both ends."""
        assert self.levels is not None
        shares = [index / (self.levels - 1) for index in range(self.levels)]
        if self.scale == "log":
            low, high = math.log(self.min), math.log(self.max)
            values: list[float] = [math.exp(low + share * (high - low)) for share in shares]
        else:
            values = [self.min + share * (self.max - self.min) for share in shares]
        whole = isinstance(self.min, int) and isinstance(self.max, int)
        return [*dict.fromkeys(round(value) if whole else float(f"{value:.6g}") for value in values)]


Factor = Levels | Values


class ExperimentSpec(BaseModel):
    """Job, factors and design of `POST /api/v1/experiments`."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    name: Annotated[Text, StringConstraints(strip_whitespace=True, min_length=1, max_length=190)] = Field(
        description="display name; its runs are called NAME-1, NAME-2, ..."
    )
    job: dict[str, Any] = Field(description="keys of POST /jobs, except the name, as for a sweep")
    design: Design = Field(
        default="factorial",
        description="2k: every combination of two levels per factor; factorial: every combination of all levels; "
        "grid: as factorial, with ranges divided into `levels`; random: `count` random points, determined by `seed`",
    )
    factors: dict[str, Factor] = Field(
        min_length=1, max_length=MAX_FACTORS, description="parameter of the job -> its levels"
    )
    replications: int = Field(default=1, ge=1, le=1000, description="number of runs of each point")
    count: int | None = Field(default=None, ge=1, le=MAX_RUNS, description="number of points of the design random")
    seed: int = Field(default=0, ge=0, le=(1 << 63) - 1, description="seed of the order and of random points")
    order: Literal["shuffled", "given"] = Field(
        default="shuffled",
        description="order in which runs start; shuffled: effects of time are not mistaken for effects of factors",
    )
    max_parallel: int = Field(
        default=1,
        ge=1,
        le=MAX_PARALLEL,
        description="maximum runs that wait or run at once; simultaneous runs can affect each other",
    )
    max_failures: int | None = Field(default=None, ge=0, le=MAX_RUNS, description="maximum failed runs, as for a sweep")
    metric: Objective = Field(default_factory=Objective)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if REPLICATION in self.factors:
            raise ValueError(f"invalid factor name {REPLICATION}: it stands for the number of the replication")
        for name, factor in self.factors.items():
            _check_factor(name, factor, self.design)
        if (self.design == "random") != (self.count is not None):
            raise ValueError("count is the number of points of the design random: give it only there")
        runs = self.size
        if runs > MAX_RUNS:
            raise ValueError(f"an experiment has at most {MAX_RUNS} runs, not {runs}: use fewer levels, or random")
        try:
            self.sweep()
        except ValidationError as error:
            raise ValueError(first_fault(error).message) from error
        return self

    @property
    def size(self) -> int:
        """Number of runs."""
        points = self.count or math.prod(len(levels) for levels in self._levels().values())
        return points * self.replications

    def _levels(self) -> dict[str, list[Value]]:
        return {
            name: factor.cut() if isinstance(factor, Levels) else list(factor) for name, factor in self.factors.items()
        }

    def sweep(self) -> SweepSpec:
        """Return the experiment as a sweep, with runs in starting order."""
        common: dict[str, Any] = {
            "name": self.name, "job": self.job, "max_parallel": self.max_parallel, "max_failures": self.max_failures,
            "metric": self.metric,
        }  # fmt: skip
        if self.design == "random":
            choices = {
                name: factor.model_dump(exclude={"levels"}) if isinstance(factor, Levels) else factor
                for name, factor in self.factors.items()
            }
            drawn = RandomRuns.model_validate({"count": self.count, "seed": self.seed, "parameters": choices})
            points = SweepSpec(**common, random=drawn)
        else:
            points = SweepSpec(**common, grid=self._levels())
        runs = [
            {**point, **({REPLICATION: number} if self._numbers_replications else {})}
            for number in range(1, self.replications + 1)
            for point in runs_of(points)
        ]
        if self.order == "shuffled":
            random.Random(self.seed).shuffle(runs)  # noqa: S311
        return SweepSpec(**common, list=runs)

    @property
    def _numbers_replications(self) -> bool:
        command = self.job.get("command")
        return isinstance(command, str) and f"{{{REPLICATION}}}" in command

    def design_of(self) -> dict[str, Any]:
        """Return the properties to store in addition to the sweep."""
        return self.model_dump(mode="json", include={"design", "factors", "replications", "count", "seed", "order"})


def _check_factor(name: str, factor: Factor, design: Design) -> None:
    if isinstance(factor, Levels):
        if design == "grid" and factor.levels is None:
            raise ValueError(f"{name}: the design grid needs `levels` for a range")
        if design not in ("grid", "random"):
            raise ValueError(f"{name}: the design {design} needs a list of levels")
        return
    if len(set(map(str, factor))) < len(factor):
        raise ValueError(f"{name}: a level is there twice; use `replications` to repeat points")
    if design == "2k" and len(factor) != 2:
        raise ValueError(f"{name}: the design 2k needs two levels per factor, not {len(factor)}")


def factors_of(design: Mapping[str, Any] | None, parameters: Sequence[str]) -> list[str]:
    """Return the factor names of a sweep.

    They come from its design, else they are all of its parameters."""
    return [*design["factors"]] if design is not None and "factors" in design else [*parameters]
