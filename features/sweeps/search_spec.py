"""Specification of a search for a configuration. Pure.

A search becomes a sweep to which runs are added one by one.
"""

from __future__ import annotations

import itertools
import math
import random
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from schedulearn.features.sweeps.advice_spec import BatchSize, GpuCount
from schedulearn.features.sweeps.spec import SweepSpec, job_of
from schedulearn.scheduler.core.planning.job_family import family_of
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.specs.texts import Text

MAX_POINTS = 500
SHARE = 0.25
"""Default maximum of trials, as a share of all configurations."""
MIN_TRIALS = 10
"""Minimum of the default maximum of trials, if there are few configurations."""
SEARCH = "search"
"""Value of `design` of a sweep that is a search."""


class SearchSpec(BaseModel):
    """Job, choices and goal of `POST /api/v1/searches`."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    name: Annotated[Text, StringConstraints(strip_whitespace=True, min_length=1, max_length=190)] = Field(
        description="display name; its trials are called NAME-1, NAME-2, ..."
    )
    job: dict[str, Any] = Field(
        description="keys of POST /jobs, except the name, as for a sweep. Use a short training, for example one "
        "epoch. Without `priority`, trials have a low one"
    )
    gpus: list[GpuCount] = Field(min_length=1, max_length=20, description="numbers of GPUs to search")
    gpu_types: list[Annotated[Text, Field(min_length=1, max_length=200)]] = Field(
        default_factory=list, max_length=10, description="GPU types to search, as the hosts show them; empty: the "
        "job's own, or the type that each trial gets"
    )  # fmt: skip
    batch_sizes: list[BatchSize] = Field(
        default_factory=list, max_length=50, description="batch sizes to search; empty: the job's own. A trial has "
        "its batch size as the key batch_size, and in place of {batch_size} in its command"
    )  # fmt: skip
    goal: Literal["time", "cost", "both"] = Field(
        default="both",
        description="value to minimize: run time of a trial, its cost (by the setting gpu_prices, else its GPU time), "
        "or the product of both",
    )
    trials: int | None = Field(
        default=None,
        ge=1,
        le=MAX_POINTS,
        description="maximum number of trials; default: a quarter of all configurations, at least 10",
    )
    max_duration: float = Field(
        default=3600.0, gt=0, le=3.2e8, description="seconds after which a trial is ended, and counts as failed"
    )
    seed: int = Field(default=0, ge=0, le=(1 << 31) - 1, description="seed of the first trial")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.points()) > MAX_POINTS:
            raise ValueError(f"a search has at most {MAX_POINTS} configurations, not {len(self.points())}")
        try:
            for number, point in enumerate(self.points(), 1):
                job_of(self.name, self.trial_job(), number, point)
        except InvalidError as error:
            raise ValueError(error.detail) from error
        return self

    @property
    def most(self) -> int:
        return self.trials or max(MIN_TRIALS, math.floor(SHARE * len(self.points())))

    def points(self) -> list[dict[str, int | str]]:
        """Return the parameters of each configuration."""
        factors = self._factors()
        return [dict(zip(factors, levels, strict=True)) for levels in itertools.product(*factors.values())]

    def _factors(self) -> dict[str, list[int | str]]:
        levels: dict[str, list[int | str]] = {
            "gpu_type": sorted(set(self.gpu_types)),
            "required_gpus": sorted(set(self.gpus)),
            "batch_size": sorted(set(self.batch_sizes)),
        }
        return {name: found for name, found in levels.items() if found}

    def trial_job(self) -> dict[str, Any]:
        """Return the keys that all trials share.

        Trials are rigid, since the search varies their size."""
        rigid = {
            "elastic",
            "min_gpus",
            "max_gpus",
            "resize",
            "required_gpus",
            *({"gpu_type"} if self.gpu_types else ()),
        }
        kept = {key: value for key, value in self.job.items() if key not in rigid}
        image, command = kept.get("container_image"), kept.get("command")
        if isinstance(image, str) and isinstance(command, str) and not kept.get("family"):
            kept["family"] = family_of(image, command)  # one family for all trials, although their commands may differ
        return {"priority": 10, "max_duration": self.max_duration, **kept}

    def sweep(self) -> SweepSpec:
        """Return the sweep with only the first trial.

        The search adds the others."""
        first = random.Random(self.seed).choice(self.points())  # noqa: S311
        return SweepSpec(name=self.name, job=self.trial_job(), list=[first])

    def design_of(self) -> dict[str, Any]:
        """Return the properties to store in addition to the sweep."""
        return {
            "design": SEARCH, "factors": self._factors(), "replications": 1, "goal": self.goal, "most": self.most,
            "seed": self.seed, "points": self.points(), "why": "", "gain": None, "found": None,
        }  # fmt: skip
