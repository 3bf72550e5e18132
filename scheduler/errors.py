"""Hierarchy of errors, each with a stable code and an HTTP status."""

from __future__ import annotations

from typing import ClassVar


class SchedulearnError(Exception):
    """Base class of errors that users may see. `str(error)` says what is wrong and what to do."""

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
    """The files of a job were removed, by a retention rule or with their host."""

    code = "files_gone"
    http_status = 410


class UnauthorizedError(SchedulearnError):
    """The token is missing or wrong."""

    code = "unauthorized"
    http_status = 401


class ForbiddenError(SchedulearnError):
    """The user is known but has no permission."""

    code = "forbidden"
    http_status = 403


class InvalidError(SchedulearnError):
    """The request is well-formed, but a value in it is invalid."""

    code = "invalid"
    http_status = 422


class NoHistoryError(InvalidError):
    """Too few jobs of a family have ended to predict the next one."""

    code = "no_history"


class UnknownPolicyError(InvalidError):
    code = "unknown_policy"


class PolicyFault(InvalidError):
    """A policy failed or returned an invalid plan."""

    code = "policy_fault"


class ConflictError(SchedulearnError):
    """The request is valid but conflicts with the present state, e.g. cancelling a job that has ended."""

    code = "conflict"
    http_status = 409


class ContainersRemainError(ConflictError):
    """A job has ended, but its containers are not removed yet. The condition is temporary."""

    code = "containers_remain"


class IdempotencyError(ConflictError):
    """An `Idempotency-Key` was used before with another body."""

    code = "idempotency_key_reused"


class IllegalTransitionError(ConflictError):
    """A state change is not in `states.TRANSITIONS`. This is a bug; the change is refused before it is stored."""

    code = "illegal_transition"


class QuotaError(SchedulearnError):
    """The user's quota is exhausted. `retry_after` is the number of seconds after which to retry."""

    code = "over_quota"
    http_status = 429

    def __init__(self, detail: str, *, retry_after: float) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class StoreError(SchedulearnError):
    """The database can't be used: locked by another service, read-only, newer than this version, or disk full."""

    code = "store"
    http_status = 503


class InUseError(StoreError):
    """Another service uses this database or data folder."""

    code = "in_use"


class UnwritableError(StoreError):
    """The last write failed. The condition ends once a write succeeds."""

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
    """Consecutive scheduling cycles fail."""

    code = "scheduling_failed"
    http_status = 503


class RuntimeFault(SchedulearnError):
    """An engine did not do what was requested. The fault is temporary, unless a subclass says otherwise."""

    code = "runtime"
    http_status = 502


class ObjectFault(RuntimeFault):
    """An engine returned an error about the requested object. Other objects are not affected."""


class StartRefused(RuntimeFault):
    """The task can't start as specified. A retry won't help."""

    code = "start_refused"


class HostRefused(StartRefused):
    """The task can't start on this host. `blame` is the responsible party, a `core.outcomes.blame.Blame`."""

    code = "host_fault"

    def __init__(self, detail: str, blame: str) -> None:
        super().__init__(detail)
        self.blame = blame


class ImageUnavailable(StartRefused):
    """The image is not on the host, and can be neither pulled nor built."""

    code = "image_unavailable"


class TooLargeError(SchedulearnError):
    """The request is larger than the service accepts."""

    code = "too_large"
    http_status = 413


class NoSpaceError(SchedulearnError):
    """A disk of the service is full."""

    code = "no_space"
    http_status = 507
