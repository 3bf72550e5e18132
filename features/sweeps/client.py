"""Client calls for sweeps, experiments, searches and advice."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schedulearn.api.client.calls import AsyncTransport
from schedulearn.api.client.transport import Json, part, without_empty

_ADVICE_S = 150.0


class AsyncExperimentCalls(AsyncTransport):
    """Part of both clients. An experiment is a sweep: `cancel_sweep` and `retry_sweep` take its id."""

    async def start_experiment(self, spec: Mapping[str, Any], idempotency_key: str | None = None) -> Json:
        """Submit an experiment, and return it as stored.

        A request whose response was lost is sent again. The key keeps that from creating a second experiment."""
        return await self._object("POST", "experiments", json=dict(spec), key=idempotency_key or uuid.uuid4().hex)

    async def experiments(
        self, states: Iterable[str] = (), *, user: str | None = None, cursor: str | None = None, limit: int = 20
    ) -> Json:
        """Return one page, newest first: `{"items", "next"}`."""
        query = without_empty(state=list(states), user=user, cursor=cursor, limit=limit)
        return await self._object("GET", "experiments", params=query)

    async def experiment(self, sweep_id: str) -> Json:
        """Return an experiment, or any sweep, with its whole `table`: the results of each run."""
        pages = await self._pages(f"experiments/{part(sweep_id)}", {})
        return _whole(pages, "responses")

    async def analysis(self, sweep_id: str, response: str = "run_time", confidence: float = 0.95) -> Json:
        """Return which factors change a response, and by how much."""
        given = {"response": response, "confidence": confidence}
        return await self._object("GET", f"experiments/{part(sweep_id)}/analysis", params=given)

    async def predictions(self, family: str | None = None, *, limit: int = 50, window: int | None = None) -> Json:
        """Return the newest `limit` predictions of run times and metrics, with the actual values.

        It also returns how often the intervals held, for the newest `window` predictions."""
        query = without_empty(family=family, limit=limit, window=window)
        return await self._object("GET", "predictions", params=query)

    async def calibrations(self, *, window: int = 100) -> Json:
        """Return the recent prediction errors of each family."""
        return await self._object("GET", "predictions/families", params={"window": window})

    async def model_versions(self, family: str) -> Json:
        """Return the model versions that predictions of a family use and used before."""
        return await self._object("GET", "predictions/versions", params={"family": family})

    async def use_model_version(self, family: str, version: int | None) -> Json:
        """Pin a model version of a family; None uses the newest version again."""
        return await self._object("PUT", "predictions/versions", json={"family": family, "version": version})

    async def start_search(self, spec: Mapping[str, Any], idempotency_key: str | None = None) -> Json:
        """Start a search for a job's best number of GPUs and batch size, and return it as stored."""
        return await self._object("POST", "searches", json=dict(spec), key=idempotency_key or uuid.uuid4().hex)

    async def search(self, sweep_id: str) -> Json:
        """Return the progress of a search, the curve of its trials, and its result."""
        return await self._object("GET", f"searches/{part(sweep_id)}")

    async def found_for(self, family: str) -> Json:
        """Return the configuration that the newest search for jobs of a family found.

        Raises ApiError with the code `not_found` if there is none."""
        return await self._object("GET", "searches/default", params={"family": family})

    async def advise(self, spec: Mapping[str, Any]) -> Json:
        """Return the batch size and number of GPUs with which a job meets its objective.

        Stores nothing. It takes seconds."""
        return await self._object("POST", "advise", json=dict(spec), timeout=_ADVICE_S)


class AsyncSweepCalls(AsyncTransport):
    """Part of both clients."""

    async def start_sweep(self, spec: Mapping[str, Any], idempotency_key: str | None = None) -> Json:
        """Submit a sweep, and return it as stored.

        A request whose response was lost is sent again. The key keeps that from creating a second sweep."""
        return await self._object("POST", "sweeps", json=dict(spec), key=idempotency_key or uuid.uuid4().hex)

    async def sweeps(
        self, states: Iterable[str] = (), *, user: str | None = None, cursor: str | None = None, limit: int = 20
    ) -> Json:
        """Return one page, newest first: `{"items", "next"}`."""
        query = without_empty(state=list(states), user=user, cursor=cursor, limit=limit)
        return await self._object("GET", "sweeps", params=query)

    async def sweep(self, sweep_id: str, *, metric: str | None = None, goal: str | None = None) -> Json:
        """Return one sweep with its whole `table`.

        `metric` and `goal`: criteria to compare runs by, instead of the sweep's own."""
        pages = await self._pages(f"sweeps/{part(sweep_id)}", without_empty(metric=metric, goal=goal))
        return _whole(pages, "logged")

    async def cancel_sweep(self, sweep_id: str) -> Json:
        return await self._object("POST", f"sweeps/{part(sweep_id)}/cancel")

    async def retry_sweep(self, sweep_id: str) -> Json:
        """Start the runs again that did not succeed."""
        return await self._object("POST", f"sweeps/{part(sweep_id)}/retry")


def _whole(pages: Sequence[Json], names: str) -> Json:
    """Return the last page with the table of all pages, and with all that they have under `names`."""
    table = [run for page in pages for run in page["table"]]
    return {**pages[-1], "table": table, names: sorted({name for page in pages for name in page[names]})}
