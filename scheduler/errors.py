"""One tree of errors. Each carries a stable code and the HTTP status that the API answers with."""

from __future__ import annotations

from typing import ClassVar


class SchedulearnError(Exception):
    """Base of every error that a user may see. `str(error)` says what is wrong and what to do."""

    code: ClassVar[str] = "internal"
    http_status: ClassVar[int] = 500

    def __init__(self, detail: str, *, field: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field


class NotFoundError(SchedulearnError):
    code = "not_found"
    http_status = 404


class FilesGoneError(NotFoundError):
    """A job's files were there, and were removed by rule or with their host."""

    code = "files_gone"
    http_status = 410


class UnauthorizedError(SchedulearnError):
    """Who asks may not: a missing or wrong token."""

    code = "unauthorized"
    http_status = 401


class ForbiddenError(SchedulearnError):
    """Who asks is known, and may not."""

    code = "forbidden"
    http_status = 403


class InvalidError(SchedulearnError):
    """The request can be read, but a value in it makes no sense here."""

    code = "invalid"
    http_status = 422


class NoHistoryError(InvalidError):
    """Too few jobs of a family have ended to say anything of the next one."""

    code = "no_history"


class UnknownPolicyError(InvalidError):
    code = "unknown_policy"


class PolicyFault(InvalidError):
    """A policy failed, or made a plan that no policy may make."""

    code = "policy_fault"


class ConflictError(SchedulearnError):
    """The request is right but does not fit the present state, e.g. cancelling a job that has ended."""

    code = "conflict"
    http_status = 409


class ContainersRemainError(ConflictError):
    """A job has ended, and its containers are not removed yet: passes by itself."""

    code = "containers_remain"


class IdempotencyError(ConflictError):
    """An `Idempotency-Key` was used before with another body."""

    code = "idempotency_key_reused"


class IllegalTransitionError(ConflictError):
    """A state change that is not in `states.TRANSITIONS`: a bug of ours, refused before it reaches the database."""

    code = "illegal_transition"


class QuotaError(SchedulearnError):
    """The user has as much as they may. `retry_after`: in so many seconds it may be otherwise."""

    code = "over_quota"
    http_status = 429

    def __init__(self, detail: str, *, retry_after: float) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class StoreError(SchedulearnError):
    """The database can't be used: locked by another service, read-only, newer than this version, disk full."""

    code = "store"
    http_status = 503


class InUseError(StoreError):
    """Another service works with this database or data folder."""

    code = "in_use"


class UnwritableError(StoreError):
    """The last write failed. Passes by itself once a write succeeds."""

    code = "database_unwritable"


class DatabaseLostError(StoreError):
    """The files of the database were removed, replaced or overwritten while the service used them."""

    code = "database_lost"


class StartingError(SchedulearnError):
    """Nothing has been scheduled since the start of the service."""

    code = "starting"
    http_status = 503


class StalledError(SchedulearnError):
    """The scheduling cycle is overdue."""

    code = "scheduling_stalled"
    http_status = 503


class FailingError(SchedulearnError):
    """Scheduling cycles fail, one after another."""

    code = "scheduling_failed"
    http_status = 503


class RuntimeFault(SchedulearnError):
    """An engine did not do what it was asked. Passing, unless it is a subclass that says otherwise."""

    code = "runtime"
    http_status = 502


class ObjectFault(RuntimeFault):
    """An engine answered with an error: it is about what it was asked for, and says nothing of the rest."""


class StartRefused(RuntimeFault):
    """The task can never start as it is: trying again won't help."""

    code = "start_refused"


class HostRefused(StartRefused):
    """The task can't start on this host. `blame`: whose fault that is, a `core.outcomes.blame.Blame`."""

    code = "host_fault"

    def __init__(self, detail: str, blame: str) -> None:
        super().__init__(detail)
        self.blame = blame


class ImageUnavailable(StartRefused):
    """The image is not on the host, can't be pulled and can't be built."""

    code = "image_unavailable"


class TooLargeError(SchedulearnError):
    """What was sent is larger than the service takes."""

    code = "too_large"
    http_status = 413


class NoSpaceError(SchedulearnError):
    """A disk of the service is full."""

    code = "no_space"
    http_status = 507
