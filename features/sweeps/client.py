"""Client calls for sweeps, experiments, searches and advice."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from schedulearn.api.client.asked.base import Asked, J, L, N, Steps, T, every_page, page_options
from schedulearn.api.client.transport import Json, part

_ADVICE_S = 150.0


class ExperimentCalls(Asked[J, L, N, T]):
    """Part of both clients. An experiment is a sweep: `cancel_sweep` and `retry_sweep` take its id."""

    def start_experiment(self, spec: Mapping[str, Any], idempotency_key: str | None = None) -> J:
        """Submit an experiment, and return it as stored.

        A request whose response was lost is sent again. The key keeps that from creating a second experiment."""
        return self._object("POST", "experiments", json=dict(spec), key=idempotency_key or uuid.uuid4().hex)

    def experiments(
        self, states: Iterable[str] = (), *, user: str | None = None, cursor: str | None = None, limit: int = 20
    ) -> J:
        """Return one page, newest first: `{"items", "next"}`."""
        return self._object("GET", "experiments", params=page_options(states, user, cursor, limit))

    def experiment(self, sweep_id: str) -> J:
        """Return an experiment, or any sweep, with its whole `table`: the results of each run."""
        return self._steps(_whole_experiment(sweep_id))

    def analysis(self, sweep_id: str, response: str = "run_time", confidence: float = 0.95) -> J:
        """Return which factors change a response, and by how much."""
        given = {"response": response, "confidence": confidence}
        return self._object("GET", f"experiments/{part(sweep_id)}/analysis", params=given)

    def predictions(self, family: str | None = None, *, limit: int = 50, window: int | None = None) -> J:
        """Return the newest `limit` predictions of run times and metrics, with the actual values.

        It also returns how often the intervals held, for the newest `window` predictions."""
        given = {"family": family, "limit": limit, "window": window}
        return self._object("GET", "predictions", params={key: value for key, value in given.items() if value})

    def calibrations(self, *, window: int = 100) -> J:
        """Return the recent prediction errors of each family."""
        return self._object("GET", "predictions/families", params={"window": window})

    def model_versions(self, family: str) -> J:
        """Return the model versions that predictions of a family use and used before."""
        return self._object("GET", "predictions/versions", params={"family": family})

    def use_model_version(self, family: str, version: int | None) -> J:
        """Pin a model version of a family; None uses the newest version again."""
        return self._object("PUT", "predictions/versions", json={"family": family, "version": version})

    def start_search(self, spec: Mapping[str, Any], idempotency_key: str | None = None) -> J:
        """Start a search for a job's best number of GPUs and batch size, and return it as stored."""
        return self._object("POST", "searches", json=dict(spec), key=idempotency_key or uuid.uuid4().hex)

    def search(self, sweep_id: str) -> J:
        """Return the progress of a search, the curve of its trials, and its result."""
        return self._object("GET", f"searches/{part(sweep_id)}")

    def found_for(self, family: str) -> J:
        """Return the configuration that the newest search for jobs of a family found.

        Raises ApiError with the code `not_found` if there is none."""
        return self._object("GET", "searches/default", params={"family": family})

    def advise(self, spec: Mapping[str, Any]) -> J:
        """Return the batch size and number of GPUs with which a job meets its objective.

        Stores nothing. It takes seconds."""
        return self._object("POST", "advise", json=dict(spec), timeout=_ADVICE_S)


def _whole_experiment(sweep_id: str) -> Steps:
    pages = yield from every_page(f"experiments/{part(sweep_id)}", {})
    responses = sorted({name for page in pages for name in page["responses"]})
    return {**pages[-1], "table": [run for page in pages for run in page["table"]], "responses": responses}


class SweepCalls(Asked[J, L, N, T]):
    """Part of both clients."""

    def start_sweep(self, spec: Mapping[str, Any], idempotency_key: str | None = None) -> J:
        """Submit a sweep, and return it as stored.

        A request whose response was lost is sent again. The key keeps that from creating a second sweep."""
        return self._object("POST", "sweeps", json=dict(spec), key=idempotency_key or uuid.uuid4().hex)

    def sweeps(
        self, states: Iterable[str] = (), *, user: str | None = None, cursor: str | None = None, limit: int = 20
    ) -> J:
        """Return one page, newest first: `{"items", "next"}`."""
        return self._object("GET", "sweeps", params=page_options(states, user, cursor, limit))

    def sweep(self, sweep_id: str, *, metric: str | None = None, goal: str | None = None) -> J:
        """Return one sweep with its whole `table`.

        `metric` and `goal`: criteria to compare runs by, instead of the sweep's own."""
        given = {"metric": metric, "goal": goal}
        asked = {key: value for key, value in given.items() if value}
        return self._steps(_whole_sweep(sweep_id, asked))

    def cancel_sweep(self, sweep_id: str) -> J:
        return self._object("POST", f"sweeps/{part(sweep_id)}/cancel")

    def retry_sweep(self, sweep_id: str) -> J:
        """Start the runs again that did not succeed."""
        return self._object("POST", f"sweeps/{part(sweep_id)}/retry")


def _whole_sweep(sweep_id: str, asked: Json) -> Steps:
    pages = yield from every_page(f"sweeps/{part(sweep_id)}", asked)
    logged = sorted({name for page in pages for name in page["logged"]})
    return {**pages[-1], "table": [run for page in pages for run in page["table"]], "logged": logged}
