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
    low: float = Field(description="bounds of a prediction interval for 9 of 10 later jobs")
    high: float

    @classmethod
    def of(cls, found: Estimate) -> Self:
        return cls.model_validate({name: round(value, 6) for name, value in found._asdict().items()})


class OptionOut(AnswerModel):
    batch_size: int | None = Field(description="null: unknown for all finished jobs")
    required_gpus: int
    gpu_type: str
    wait_time: float = Field(description="predicted seconds until the start")
    run_time: EstimateOut
    response_time: EstimateOut = Field(description="predicted seconds from now to the end")
    metric: EstimateOut | None = Field(description="predicted metric; null: too few jobs have logged it")
    cost: float | None = Field(
        description="predicted cost in `currency`; null: the setting gpu_prices has no price of this type"
    )
    meets: bool = Field(description="whether it meets the objective at the unfavorable bound of the interval")

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
    r2: float = Field(
        description="coefficient of determination on unseen configurations: 1 is exact, 0 no better than the mean"
    )
    error: float = Field(description="median absolute error on unseen configurations")


class AdviceOut(AnswerModel):
    family: str
    samples: int = Field(description="number of finished jobs of the family that the advice is based on")
    meets: bool = Field(description="whether the objective can be met")
    why: str
    currency: str = Field(description="currency of each `cost`: the setting currency")
    chosen: OptionOut
    options: list[OptionOut] = Field(description="best option first")
    time_models: list[ScoreOut] = Field(description="scores of all models; the first one is used")
    metric_models: list[ScoreOut] = Field(description="as `time_models`; empty: the metric is not predicted")

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
    rests_on: int = Field(description="number of successful jobs of the family at that time")
    gpu_seconds: float = Field(description="predicted total GPU-seconds")
    low: float = Field(description="bounds of a prediction interval for 9 of 10 jobs")
    high: float
    ended_at: At | None
    actual: float | None = Field(description="actual GPU-seconds; null: it has not ended, or not successfully")

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
    compared: int = Field(description="number of predictions whose jobs have succeeded")
    held: int = Field(description="number of these whose actual value is in the interval")
    median_factor: float | None = Field(
        description="median of the factors between prediction and actual value, in either direction"
    )
    mean_error: float | None = Field(description="mean absolute error, as a share of the actual value")


class MetricPredictionOut(AnswerModel):
    job: str
    family: str
    metric: str
    predicted_at: At
    rests_on: int = Field(description="number of successful jobs of the family at that time that logged the metric")
    model: str = Field(description="mean, linear or power law: the model with the smallest error on those jobs")
    value: float = Field(description="predicted last value of the metric")
    low: float = Field(description="bounds of a prediction interval for 9 of 10 jobs")
    high: float
    ended_at: At | None
    actual: float | None = Field(
        description="actual last value; null: the job has not ended, not succeeded, or not logged the metric"
    )

    @classmethod
    def of(cls, row: PredictedMetric) -> Self:
        given = row.model_dump(exclude={"seq", "job_id", "jobs"})
        return cls.model_validate({**given, "job": row.job_id, "rests_on": row.jobs})


class MetricPredictionsOut(AnswerModel):
    compared: int = Field(description="number of predictions whose jobs have succeeded and logged the metric")
    held: int = Field(description="number of these whose actual value is in the interval")
    items: list[MetricPredictionOut] = Field(description="newest first")


class PredictionsOut(CalibrationOut):
    interval: float = Field(default=CONFIDENCE, description="share of jobs for which an interval should hold")
    items: list[LengthPredictionOut] = Field(description="newest first")
    metrics: MetricPredictionsOut = Field(description="the same for the final values of metrics")


class FamilyCalibrationOut(CalibrationOut):
    family: str
    version: int = Field(description="model version in use")
    pinned: bool

    @classmethod
    def shown(cls, family: str, found: Calibration, version: ModelVersion | None) -> Self:
        number, pinned = (version.number, version.pinned) if version is not None else (1, False)
        return cls(family=family, version=number, pinned=pinned, **found._asdict())


class MetricCalibrationOut(AnswerModel):
    family: str
    metric: str
    compared: int = Field(description="number of predictions whose jobs have succeeded and logged the metric")
    held: int = Field(description="number of these whose actual value is in the interval")
    mean_error: float = Field(description="mean absolute error, in the unit of the metric")


class CalibrationsOut(AnswerModel):
    interval: float = Field(default=CONFIDENCE, description="share of jobs for which an interval should hold")
    items: list[FamilyCalibrationOut] = Field(description="families by their latest prediction, newest first")
    metrics: list[MetricCalibrationOut] = Field(description="the same for each metric of a family")


class ModelVersionOut(AnswerModel):
    number: int
    since: At | None = Field(description="only jobs that ended at or after this time count; null: no limit")
    until: At | None = Field(
        description="only jobs that ended before this time count; null: no limit, new jobs are added"
    )
    made_at: At
    why: str
    jobs: int = Field(description="number of stored successful jobs of its period")
    in_use: bool
    pinned: bool

    @classmethod
    def of(cls, row: ModelVersion, jobs: int) -> Self:
        return cls.model_validate({**row.model_dump(exclude={"seq", "family", "used_since"}), "jobs": jobs})


class ModelVersionsOut(AnswerModel):
    family: str
    items: list[ModelVersionOut] = Field(description="oldest first; empty: all jobs of the family count")
