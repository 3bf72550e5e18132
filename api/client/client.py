"""Synchronous client of the API, for scripts and the command line.

It returns the API's JSON unchanged; `schedulearn.api.answers` describes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import IO

from schedulearn.api.client.data import DataClient
from schedulearn.api.client.errors import ApiError, ClientError, UnreachableError
from schedulearn.api.client.files import FilesClient
from schedulearn.api.client.job import Job, LogPiece
from schedulearn.api.client.transport import Event, Json

__all__ = ["ApiError", "Client", "ClientError", "Event", "Job", "Json", "LogPiece", "UnreachableError"]

_CODE_PIECE = 1 << 18
_CODE_S = 300.0  # timeout between two pieces, and for the response: other uploads may come first


class Client(FilesClient, DataClient):
    """Synchronous client of one service.

    `url`, `token` and `ca` default to SCHEDULEARN_URL, SCHEDULEARN_TOKEN and SCHEDULEARN_CA, and without
    the first two to the service of `schedulearn login`. `ca` is a file with the certificate to trust, or
    its fingerprint. Threads may share a client.

    Every method raises UnreachableError if nothing answers and ApiError if the service refuses.
    """

    def all_jobs(
        self,
        states: Iterable[str] = (),
        *,
        user: str | None = None,
        q: str | None = None,
        labels: Mapping[str, str] | None = None,
        sweep: str | None = None,
        schedule: str | None = None,
        ended_since: str | None = None,
        limit: int | None = None,
    ) -> Json:
        """Return the same as `jobs`, with the items of all pages, or the first `limit` of them."""
        found = self._pages_of_jobs(
            limit, states=list(states), user=user, q=q, labels=labels, sweep=sweep, schedule=schedule,
            ended_since=ended_since,
        )  # fmt: skip
        pages = list(found)
        return {**pages[-1], "items": [item for page in pages for item in page["items"]]}

    def send_code(self, archive: IO[bytes], digest: str | None = None) -> Json:
        """Store a tar file, and return `{"digest", "bytes"}`.

        `digest`: the digest of the archive as the service packs it, if known."""
        query = {"digest": digest} if digest else {}
        pieces = iter(partial(archive.read, _CODE_PIECE), b"")
        headers = {"content-type": "application/x-tar"}
        return self._object("POST", "code", params=query, content=pieces, headers=headers, timeout=_CODE_S)
