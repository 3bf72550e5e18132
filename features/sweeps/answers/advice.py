"""Responses with advice and predictions.

Advice lists configurations of a job, each with its predicted run time, cost and metric. Predictions of run times and
metrics come with the actual values and the versions of their models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from pydantic import Field

from schedulearn.api.answers.model import AnswerModel, At
from schedulearn.scheduler.core.predictions.regression import CONFIDENCE

if TYPE_CHECKING:
    from schedulearn.features.sweeps.advisor import Advice
    from schedulearn.features.sweeps.models.advice import Estimate, Option
    from schedulearn.scheduler.store.predictions.lengths import Calibration, LengthPrediction
    from schedulearn.scheduler.store.predictions.metric_predictions import PredictedMetric
    from schedulearn.scheduler.store.predictions.versions import ModelVersion


class EstimateOut(AnswerModel):
    value: float
    low: float = Field(description="bounds of an interval that nine later jobs of ten are to lie in")
    high: float

    @classmethod
    def of(cls, found: Estimate) -> Self:
        return cls.model_validate({name: round(value, 6) for name, value in found._asdict().items()})


class OptionOut(AnswerModel):
    batch_size: int | None = Field(description="null: no finished job told its own")
    required_gpus: int
    gpu_type: str
    wait_time: float = Field(description="seconds until it would start")
    run_time: EstimateOut
    response_time: EstimateOut = Field(description="seconds from now to its end")
    metric: EstimateOut | None = Field(description="what it would reach; null: too few jobs have logged it")
    cost: float | None = Field(description="in `currency`; null: the setting gpu_prices has no price of this type")
    meets: bool = Field(description="it meets the objective, at the far end of its interval")

    @classmethod
    def of(cls, found: Option) -> Self:
        given = found.configuration
        return cls(
            batch_size=given.batch_size or None,
            required_gpus=given.gpus,
            gpu_type=given.gpu_type,
            wait_time=round(found.wait, 3),
            run_time=EstimateOut.of(found.run_time),
            response_time=EstimateOut.of(found.response_time),
            metric=EstimateOut.of(found.metric) if found.metric is not None else None,
            cost=None if found.cost is None else round(found.cost, 6),
            meets=found.meets,
        )


class ScoreOut(AnswerModel):
    model: str
    r2: float = Field(description="on configurations that it had not seen: 1 is exact, 0 no better than the mean")
    error: float = Field(description="median of the absolute errors there")


class AdviceOut(AnswerModel):
    family: str
    samples: int = Field(description="finished jobs of the family that it rests on")
    meets: bool = Field(description="whether the objective can be met")
    why: str
    currency: str = Field(description="of each `cost`: the setting currency")
    chosen: OptionOut
    options: list[OptionOut] = Field(description="the best first")
    time_models: list[ScoreOut] = Field(description="the first one is used")
    metric_models: list[ScoreOut] = Field(description="likewise; empty: the metric is not predicted")

    @classmethod
    def of(cls, found: Advice, currency: str) -> Self:
        choice = found.choice
        return cls(
            family=choice.chosen.configuration.family,
            samples=found.samples,
            meets=choice.chosen.meets,
            why=choice.why,
            currency=currency,
            chosen=OptionOut.of(choice.chosen),
            options=[OptionOut.of(option) for option in choice.options],
            time_models=[ScoreOut(**score._asdict()) for score in found.time_scores],
            metric_models=[ScoreOut(**score._asdict()) for score in found.metric_scores],
        )


class LengthPredictionOut(AnswerModel):
    job: str
    family: str
    predicted_at: At
    rests_on: int = Field(description="jobs of the family that had ended well by then")
    gpu_seconds: float = Field(description="in all, as predicted")
    low: float = Field(description="bounds of an interval that nine jobs of ten are to lie in")
    high: float
    ended_at: At | None
    actual: float | None = Field(description="GPU-seconds that it took; null: it has not ended, or not well")

    @classmethod
    def of(cls, row: LengthPrediction) -> Self:
        return cls.model_validate(
            {
                "job": row.job_id,
                "family": row.family,
                "predicted_at": row.predicted_at,
                "rests_on": row.jobs,
                "gpu_seconds": row.value,
                "low": row.low,
                "high": row.high,
                "ended_at": row.ended_at,
                "actual": row.actual,
            }
        )


class CalibrationOut(AnswerModel):
    compared: int = Field(description="predictions whose jobs have ended well")
    held: int = Field(description="of these, how many lie in their interval")
    median_factor: float | None = Field(description="half of them were off by at most so much, either way")
    mean_error: float | None = Field(description="mean of how far each was off, as a share of what came")


class MetricPredictionOut(AnswerModel):
    job: str
    family: str
    metric: str
    predicted_at: At
    rests_on: int = Field(description="jobs of the family that had ended well by then and logged it")
    model: str = Field(description="mean, linear or power law: which one was least off in those jobs")
    value: float = Field(description="the last one that the job would log, as predicted")
    low: float = Field(description="bounds of an interval that nine jobs of ten are to lie in")
    high: float
    ended_at: At | None
    actual: float | None = Field(description="null: it has not ended, or not well, or has not logged it")

    @classmethod
    def of(cls, row: PredictedMetric) -> Self:
        given = row.model_dump(exclude={"seq", "job_id", "jobs"})
        return cls.model_validate({**given, "job": row.job_id, "rests_on": row.jobs})


class MetricPredictionsOut(AnswerModel):
    compared: int = Field(description="predictions whose jobs have ended well and logged the metric")
    held: int = Field(description="of these, how many lie in their interval")
    items: list[MetricPredictionOut] = Field(description="the newest first")


class PredictionsOut(CalibrationOut):
    interval: float = Field(default=CONFIDENCE, description="the share of jobs that an interval is to hold")
    items: list[LengthPredictionOut] = Field(description="the newest first")
    metrics: MetricPredictionsOut = Field(description="likewise of what the metrics of jobs ended with")


class FamilyCalibrationOut(CalibrationOut):
    family: str
    version: int = Field(description="of its models, in use")
    pinned: bool

    @classmethod
    def shown(cls, family: str, found: Calibration, version: ModelVersion | None) -> Self:
        number, pinned = (version.number, version.pinned) if version is not None else (1, False)
        return cls(family=family, version=number, pinned=pinned, **found._asdict())


class MetricCalibrationOut(AnswerModel):
    family: str
    metric: str
    compared: int = Field(description="predictions whose jobs have ended well and logged it")
    held: int = Field(description="of these, how many lie in their interval")
    mean_error: float = Field(description="mean of how far each was off, in the unit of the metric")


class CalibrationsOut(AnswerModel):
    interval: float = Field(default=CONFIDENCE, description="the share of jobs that an interval is to hold")
    items: list[FamilyCalibrationOut] = Field(description="the family that was predicted last comes first")
    metrics: list[MetricCalibrationOut] = Field(description="of each metric of a family")


class ModelVersionOut(AnswerModel):
    number: int
    since: At | None = Field(description="jobs that ended from then on count; null: from the first")
    until: At | None = Field(description="and before then; null: it learns from each that ends")
    made_at: At
    why: str
    jobs: int = Field(description="that ended well in its time and are still there")
    in_use: bool
    pinned: bool

    @classmethod
    def of(cls, row: ModelVersion, jobs: int) -> Self:
        return cls.model_validate({**row.model_dump(exclude={"seq", "family", "used_since"}), "jobs": jobs})


class ModelVersionsOut(AnswerModel):
    family: str
    items: list[ModelVersionOut] = Field(description="the oldest first; empty: all jobs of the family count")
