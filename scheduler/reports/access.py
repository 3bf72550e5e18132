"""How a job's workers reach the service: an address, and a token that is good for the reports of this one job."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import insert
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.models import Meta

PATH = "/api/v1/reports"
_KEY = "report_secret"


@dataclass(frozen=True)
class ReportAccess:
    """`secret` is this database's own: tokens need not be stored, and stay good over restarts of the service."""

    secret: bytes
    url: str | None
    """Of the service, as its workers reach it; None: they can't, and don't report."""
    interval_s: float
    checkpoint_interval_s: float
    certificate: str | None = None
    """Base64 of its DER: the only one that workers trust at a URL with https. None: they ask the authorities that their
    image knows."""

    def token(self, job_id: str) -> str:
        signature = hmac.new(self.secret, job_id.encode(), hashlib.sha256).hexdigest()[:40]
        return f"{job_id}.{signature}"

    def job_of(self, token: str) -> str | None:
        """The job that a token was made for; None if it is none of ours."""
        job_id = token.partition(".")[0]
        return job_id if hmac.compare_digest(token.encode(), self.token(job_id).encode()) else None

    def port_token(self, job_id: str) -> str:
        """By which a job knows that a request to one of its ports comes through the service."""
        return hmac.new(self.secret, f"port.{job_id}".encode(), hashlib.sha256).hexdigest()[:40]

    def env(self, job_id: str) -> Mapping[str, str]:
        env = {
            "SCHEDULEARN_CHECKPOINT_INTERVAL": f"{self.checkpoint_interval_s:g}",
            "SCHEDULEARN_PORT_TOKEN": self.port_token(job_id),
        }
        if self.url is not None:
            env["SCHEDULEARN_REPORT_URL"] = self.url.rstrip("/") + PATH
            env["SCHEDULEARN_REPORT_INTERVAL"] = f"{self.interval_s:g}"
            env["SCHEDULEARN_JOB_TOKEN"] = self.token(job_id)
            if self.certificate is not None and self.url.lower().startswith("https:"):
                env["SCHEDULEARN_REPORT_CERTIFICATE"] = self.certificate
        return env


def report_secret(conn: Connection) -> bytes:
    """Made at the first call."""
    found = repository.meta(conn, _KEY)
    if found is None:
        found = secrets.token_hex(32)
        conn.execute(insert(Meta).values({col(Meta.key): _KEY, col(Meta.value): found}))
    return bytes.fromhex(found)
