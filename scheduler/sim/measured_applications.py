"""The six applications whose passes and gradients Pollux's authors measured (`measured/README.md`)."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

import numpy as np

from schedulearn.metrics.model.goodput import BatchBounds
from schedulearn.scheduler.sim.application import Application, Measured, MeasuredNoise

NAMES = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")


@cache
def measured_applications() -> dict[str, Application]:
    """By name."""
    return {name: _application(name) for name in NAMES}


def _application(name: str) -> Application:
    table = json.loads(files("schedulearn.scheduler.sim").joinpath("measured", f"{name}.json").read_text("utf-8"))
    by_placement = {digits: np.array(columns, dtype=float) for digits, columns in table["placements"].items()}
    times = Measured(by_placement, np.array(table["scalability"], dtype=float))
    progress = np.array(table["progress"], dtype=float)
    gradient = np.array(list(table["gradient"].values()), dtype=float)
    least, most = table["local_batch_size"]
    init = table["init_batch_size"]
    return Application(
        name,
        times,
        BatchBounds(init, table["max_batch_size"], least, most),
        float(progress[-1]),
        MeasuredNoise(
            init, (progress / progress[-1]).tolist(), np.array([float(b) for b in table["gradient"]]),
            gradient[:, 0], gradient[:, 1],
        ),
        table.get("fixed_batch_size"),
        table.get("max_gpus"),
    )  # fmt: skip
