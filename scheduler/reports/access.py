"""Access of workers to the service: URL and token per job.

The token is valid only for reports of this one job.
"""

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
    """Report access of all jobs.

    `secret` belongs to the database. Tokens need not be stored, and stay valid when the service restarts.
    """

    secret: bytes
    url: str | None
    """URL at which workers reach the service. If None, they can't reach it and don't report."""
    interval_s: float
    checkpoint_interval_s: float
    certificate: str | None = None
    """Base64 of the certificate's DER, the only one that workers trust at an https URL. If None, workers use the
    certificate authorities of their image."""

    def token(self, job_id: str) -> str:
        signature = hmac.new(self.secret, job_id.encode(), hashlib.sha256).hexdigest()[:40]
        return f"{job_id}.{signature}"

    def job_of(self, token: str) -> str | None:
        """Return the job of a token; None if the token is invalid."""
        job_id = token.partition(".")[0]
        return job_id if hmac.compare_digest(token.encode(), self.token(job_id).encode()) else None

    def port_token(self, job_id: str) -> str:
        """Return the token by which a job recognizes requests to its ports that come through the service."""
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
    """Return the database's report secret. The first call creates it."""
    found = repository.meta(conn, _KEY)
    if found is None:
        found = secrets.token_hex(32)
        conn.execute(insert(Meta).values({col(Meta.key): _KEY, col(Meta.value): found}))
    return bytes.fromhex(found)
