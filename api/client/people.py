"""The calls for accounts and tokens."""

from __future__ import annotations

from collections.abc import Mapping

from schedulearn.api.client.transport import Json, Transport, part


class PeopleCalls(Transport):
    """Part of `Client`."""

    def whoami(self) -> Json:
        """Who the service takes you for: `{"name", "role", ...}`."""
        return self._object("GET", "whoami")

    def users(self) -> Json:
        """`{"items": [...]}`, without the account that runs the service."""
        return self._object("GET", "users")

    def add_user(self, name: str, role: str = "user") -> Json:
        return self._object("POST", "users", json={"name": name, "role": role})

    def set_role(self, name: str, role: str) -> Json:
        return self._object("PATCH", f"users/{part(name)}", json={"role": role})

    def remove_user(self, name: str) -> None:
        """Revokes their tokens; their jobs go on."""
        self._delete(f"users/{part(name)}")

    def quotas(self) -> Json:
        """`{"items": [...]}`, with what each user has of it; the user `*` is everybody else."""
        return self._object("GET", "quotas")

    def set_quota(self, user: str, bounds: Mapping[str, float]) -> Json:
        """`bounds`: gpus, gpu_hours, waiting, submissions, weight; one that is left out is none."""
        return self._object("PUT", f"quotas/{part(user)}", json=dict(bounds))

    def remove_quota(self, user: str) -> None:
        self._delete(f"quotas/{part(user)}")

    def secrets(self) -> Json:
        """`{"items": [...]}`, without their values."""
        return self._object("GET", "secrets")

    def set_secret(self, name: str, value: str, *, shared: bool = False) -> Json:
        return self._object("PUT", f"secrets/{part(name)}", json={"value": value}, params={"shared": shared})

    def remove_secret(self, name: str, *, shared: bool = False) -> None:
        self._delete(f"secrets/{part(name)}", params={"shared": shared})

    def tokens(self) -> Json:
        """`{"required", "items": [...]}`, without the tokens themselves."""
        return self._object("GET", "tokens")

    def add_token(
        self, name: str, user: str | None = None, role: str | None = None, expires_in_days: float | None = None
    ) -> Json:
        """With `token`, which is shown this once."""
        given = {"user": user, "role": role, "expires_in_days": expires_in_days}
        known = {key: value for key, value in given.items() if value is not None}
        return self._object("POST", "tokens", json={"name": name, **known})

    def revoke_token(self, token_id: int) -> None:
        """With all that were made with it."""
        self._delete(f"tokens/{token_id}")
