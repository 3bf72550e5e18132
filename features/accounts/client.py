"""Client calls for accounts, quotas, groups, secrets and tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedulearn.api.client.asked.base import Asked, J, L, N, T
from schedulearn.api.client.transport import part


class AccountCalls(Asked[J, L, N, T]):
    """Calls of both clients for accounts."""

    def whoami(self) -> J:
        """Your account at the service: `{"name", "role", ...}`."""
        return self._object("GET", "whoami")

    def users(self) -> J:
        """`{"items": [...]}`, without the account that runs the service."""
        return self._object("GET", "users")

    def add_user(
        self, name: str, role: str = "user", *, uid: int | None = None, gid: int | None = None, gids: Sequence[int] = ()
    ) -> J:
        """`uid`, `gid`, `gids`: IDs with which their jobs write folders of the hosts; None: they write none."""
        ids = {"uid": uid, "gid": gid, "gids": list(gids)} if uid is not None or gid is not None or gids else {}
        return self._object("POST", "users", json={"name": name, "role": role, **ids})

    def set_role(self, name: str, role: str) -> J:
        return self._object("PATCH", f"users/{part(name)}", json={"role": role})

    def set_ids(self, name: str, uid: int | None, gid: int | None, gids: Sequence[int] = ()) -> J:
        """Set the IDs with which their jobs write folders of the hosts; None: they write none."""
        return self._object("PATCH", f"users/{part(name)}", json={"uid": uid, "gid": gid, "gids": list(gids)})

    def remove_user(
        self, name: str, *, jobs: str | None = None, secrets: str | None = None, data: str | None = None
    ) -> N:
        """Remove a user and revoke their tokens. `jobs`: cancel or keep; `secrets`, `data`: remove or keep.

        Raises ConflictError if they have any of these for which the argument is None."""
        answers = {"jobs": jobs, "secrets": secrets, "data": data}
        return self._nothing(
            "DELETE", f"users/{part(name)}", params={key: value for key, value in answers.items() if value is not None}
        )

    def quotas(self) -> J:
        """`{"items": [...]}`, with each user's current use; the user `*` is everybody else."""
        return self._object("GET", "quotas")

    def set_quota(self, user: str, bounds: Mapping[str, float]) -> J:
        """`bounds`: gpus, gpu_hours, waiting, submissions, cpu_jobs, cpus, memory_gib, weight; a missing one is not
        bounded."""
        return self._object("PUT", f"quotas/{part(user)}", json=dict(bounds))

    def remove_quota(self, user: str) -> N:
        return self._nothing("DELETE", f"quotas/{part(user)}")

    def groups(self) -> J:
        """`{"items": [...]}`, with the current use of each group's users together."""
        return self._object("GET", "groups")

    def set_group(self, name: str, bounds: Mapping[str, float]) -> J:
        """Create or change a group. `bounds`: gpus, gpu_hours, waiting, submissions, cpu_jobs, cpus, memory_gib; a
        missing one is not bounded."""
        return self._object("PUT", f"groups/{part(name)}", json=dict(bounds))

    def remove_group(self, name: str) -> N:
        return self._nothing("DELETE", f"groups/{part(name)}")

    def add_member(self, group: str, user: str) -> J:
        """Add a user to a group, and remove them from their former group."""
        return self._object("PUT", f"groups/{part(group)}/members/{part(user)}")

    def remove_member(self, group: str, user: str) -> N:
        return self._nothing("DELETE", f"groups/{part(group)}/members/{part(user)}")

    def secrets(self) -> J:
        """`{"items": [...]}`, without their values."""
        return self._object("GET", "secrets")

    def set_secret(self, name: str, value: str, *, shared: bool = False) -> J:
        return self._object("PUT", f"secrets/{part(name)}", json={"value": value}, params={"shared": shared})

    def remove_secret(self, name: str, *, shared: bool = False) -> N:
        return self._nothing("DELETE", f"secrets/{part(name)}", params={"shared": shared})

    def tokens(self) -> J:
        """`{"required", "items": [...]}`, without the tokens themselves."""
        return self._object("GET", "tokens")

    def add_token(
        self, name: str, user: str | None = None, role: str | None = None, expires_in_days: float | None = 90
    ) -> J:
        """Create a token. Only this response has the `token` itself.

        Without `role`, its role is at most `user`. With `expires_in_days` None, it does not expire by itself."""
        given = {key: value for key, value in {"user": user, "role": role}.items() if value is not None}
        return self._object("POST", "tokens", json={"name": name, **given, "expires_in_days": expires_in_days})

    def revoke_token(self, token_id: int) -> N:
        """Revoke a token and all tokens that were made with it."""
        return self._nothing("DELETE", f"tokens/{token_id}")
