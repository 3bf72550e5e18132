"""The calls for experiments and advice."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from schedulearn.api.client.asked.base import Asked, J, L, N, Steps, T, every_page, page_options
from schedulearn.api.client.transport import part

_ADVICE_S = 150.0


class ExperimentCalls(Asked[J, L, N, T]):
    """Part of both clients. An experiment is a sweep: `cancel_sweep` and `retry_sweep` take its id."""

    def start_experiment(self, spec: Mapping[str, Any], idempotency_key: str | None = None) -> J:
        """The experiment as stored. A lost answer is asked for again; the key keeps that from making a second one."""
        return self._object("POST", "experiments", json=dict(spec), key=idempotency_key or uuid.uuid4().hex)

    def experiments(
        self, states: Iterable[str] = (), *, user: str | None = None, cursor: str | None = None, limit: int = 20
    ) -> J:
        """One page, newest first: `{"items", "next"}`."""
        return self._object("GET", "experiments", params=page_options(states, user, cursor, limit))

    def experiment(self, sweep_id: str) -> J:
        """An experiment, or any sweep, with its whole `table`: the results of each run."""
        return self._steps(_whole_experiment(sweep_id))

    def analysis(self, sweep_id: str, response: str = "run_time", confidence: float = 0.95) -> J:
        """Which factors change a response, and by how much."""
        given = {"response": response, "confidence": confidence}
        return self._object("GET", f"experiments/{part(sweep_id)}/analysis", params=given)

    def predictions(self, family: str | None = None, *, limit: int = 50, window: int | None = None) -> J:
        """How long jobs were predicted to take, and took, and what to reach, and reached: the newest `limit`, and how
        often the intervals held, of the newest `window`."""
        given = {"family": family, "limit": limit, "window": window}
        return self._object("GET", "predictions", params={key: value for key, value in given.items() if value})

    def calibrations(self, *, window: int = 100) -> J:
        """How far the predictions of each family were off lately."""
        return self._object("GET", "predictions/families", params={"window": window})

    def model_versions(self, family: str) -> J:
        """What the predictions of a family rest on, and rested on before."""
        return self._object("GET", "predictions/versions", params={"family": family})

    def use_model_version(self, family: str, version: int | None) -> J:
        """Pins a version; None: the newest is used again."""
        return self._object("PUT", "predictions/versions", json={"family": family, "version": version})

    def start_search(self, spec: Mapping[str, Any], idempotency_key: str | None = None) -> J:
        """The search as stored: for the best number of GPUs and batch size of a job."""
        return self._object("POST", "searches", json=dict(spec), key=idempotency_key or uuid.uuid4().hex)

    def search(self, sweep_id: str) -> J:
        """How far a search is, the curve of its trials, and what it found."""
        return self._object("GET", f"searches/{part(sweep_id)}")

    def found_for(self, family: str) -> J:
        """The configuration that the newest search for jobs of a family found. Raises NotFound."""
        return self._object("GET", "searches/default", params={"family": family})

    def advise(self, spec: Mapping[str, Any]) -> J:
        """With which batch size and how many GPUs a job meets its objective; stores nothing. Takes seconds."""
        return self._object("POST", "advise", json=dict(spec), timeout=_ADVICE_S)


def _whole_experiment(sweep_id: str) -> Steps:
    pages = yield from every_page(f"experiments/{part(sweep_id)}", {})
    responses = sorted({name for page in pages for name in page["responses"]})
    return {**pages[-1], "table": [run for page in pages for run in page["table"]], "responses": responses}
