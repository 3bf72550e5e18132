"""Client calls for accounts, quotas, groups, secrets, registry logins and tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedulearn.api.client.calls import AsyncTransport
from schedulearn.api.client.transport import Json, part


class AsyncAccountCalls(AsyncTransport):
    """Calls of both clients for accounts."""

    async def whoami(self) -> Json:
        """Your account at the service: `{"name", "role", ...}`."""
        return await self._object("GET", "whoami")

    async def ask_login(self, host: str, account: str, role: str | None = None) -> Json:
        """Ask for a token that a user approves on the page: `{"code", "secret", "expires_in", "interval"}`."""
        wish = {"role": role} if role else {}
        return await self._object("POST", "logins", json={"host": host, "account": account, **wish})

    async def take_login(self, secret: str) -> Json:
        """`{"state", "token"}` of a login that was asked for; the token comes once."""
        return await self._object("POST", "logins/token", json={"secret": secret})

    async def users(self) -> Json:
        """`{"items": [...]}`, without the account that runs the service."""
        return await self._object("GET", "users")

    async def add_user(
        self, name: str, role: str = "user", *, uid: int | None = None, gid: int | None = None, gids: Sequence[int] = ()
    ) -> Json:
        """`uid`, `gid`, `gids`: IDs with which their jobs write folders of the hosts; None: they write none."""
        ids = {"uid": uid, "gid": gid, "gids": list(gids)} if uid is not None or gid is not None or gids else {}
        return await self._object("POST", "users", json={"name": name, "role": role, **ids})

    async def set_role(self, name: str, role: str) -> Json:
        return await self._object("PATCH", f"users/{part(name)}", json={"role": role})

    async def set_ids(self, name: str, uid: int | None, gid: int | None, gids: Sequence[int] = ()) -> Json:
        """Set the IDs with which their jobs write folders of the hosts; None: they write none."""
        return await self._object("PATCH", f"users/{part(name)}", json={"uid": uid, "gid": gid, "gids": list(gids)})

    async def set_disabled(self, name: str, disabled: bool) -> Json:
        """Disable a user, so that no token, session or sign-in of theirs works, or enable them again."""
        return await self._object("PATCH", f"users/{part(name)}", json={"disabled": disabled})

    async def link_user(self, name: str, issuer: str, subject: str) -> Json:
        """Let a person at an identity provider sign in as this user."""
        body = {"issuer": issuer, "subject": subject}
        return await self._object("PUT", f"users/{part(name)}/identities", json=body)

    async def unlink_user(self, name: str) -> None:
        """Let nobody sign in as this user by a provider."""
        await self._nothing("DELETE", f"users/{part(name)}/identities")

    async def remove_user(
        self, name: str, *, jobs: str | None = None, secrets: str | None = None, data: str | None = None
    ) -> None:
        """Remove a user and revoke their tokens. `jobs`: cancel or keep; `secrets`, `data`: remove or keep.

        Raises ConflictError if they have any of these for which the argument is None."""
        answers = {"jobs": jobs, "secrets": secrets, "data": data}
        await self._nothing(
            "DELETE", f"users/{part(name)}", params={key: value for key, value in answers.items() if value is not None}
        )

    async def quotas(self) -> Json:
        """`{"items": [...]}`, with each user's current use; the user `*` is everybody else."""
        return await self._object("GET", "quotas")

    async def set_quota(self, user: str, bounds: Mapping[str, float]) -> Json:
        """`bounds`: gpus, gpu_hours, waiting, submissions, cpu_jobs, cpus, memory_gib, priority, max_duration,
        default_duration, weight; a missing one is not bounded."""
        return await self._object("PUT", f"quotas/{part(user)}", json=dict(bounds))

    async def remove_quota(self, user: str) -> None:
        await self._nothing("DELETE", f"quotas/{part(user)}")

    async def groups(self) -> Json:
        """`{"items": [...]}`, with the current use of each group's users together."""
        return await self._object("GET", "groups")

    async def set_group(
        self, name: str, bounds: Mapping[str, float], *, guarantee: Mapping[str, int] | None = None
    ) -> Json:
        """Create or change a group. `bounds`: gpus, gpu_hours, waiting, submissions, cpu_jobs, cpus, memory_gib,
        priority, max_duration, default_duration; a missing one is not bounded.

        `guarantee`: GPU type, or `any` -> number of guaranteed GPUs; None: nothing is guaranteed."""
        body = {**bounds, "guarantee": dict(guarantee or {})}
        return await self._object("PUT", f"groups/{part(name)}", json=body)

    async def remove_group(self, name: str) -> None:
        await self._nothing("DELETE", f"groups/{part(name)}")

    async def add_member(self, group: str, user: str) -> Json:
        """Add a user to a group, and remove them from their former group."""
        return await self._object("PUT", f"groups/{part(group)}/members/{part(user)}")

    async def remove_member(self, group: str, user: str) -> None:
        await self._nothing("DELETE", f"groups/{part(group)}/members/{part(user)}")

    async def secrets(self) -> Json:
        """`{"items": [...]}`, without their values."""
        return await self._object("GET", "secrets")

    async def set_secret(self, name: str, value: str, *, shared: bool = False) -> Json:
        return await self._object("PUT", f"secrets/{part(name)}", json={"value": value}, params={"shared": shared})

    async def remove_secret(self, name: str, *, shared: bool = False) -> None:
        await self._nothing("DELETE", f"secrets/{part(name)}", params={"shared": shared})

    async def registry_logins(self) -> Json:
        """`{"items": [...]}`, without their passwords."""
        return await self._object("GET", "registries")

    async def set_registry_login(
        self, registry: str, username: str, password: str, *, group: str | None = None, shared: bool = False
    ) -> Json:
        """Store a login to a registry, for yourself, a group or everybody: `{"registry", "checked", "message", ...}`.

        `checked` is false if the registry could not be asked. A refused login is not stored."""
        body = {"username": username, "password": password}
        return await self._object(
            "PUT", f"registries/{part(registry)}", json=body, params=_registry_holder(group, shared)
        )

    async def remove_registry_login(self, registry: str, *, group: str | None = None, shared: bool = False) -> None:
        await self._nothing("DELETE", f"registries/{part(registry)}", params=_registry_holder(group, shared))

    async def tokens(self) -> Json:
        """`{"required", "items": [...]}`, without the tokens themselves."""
        return await self._object("GET", "tokens")

    async def add_token(
        self, name: str, user: str | None = None, role: str | None = None, expires_in_days: float | None = 90
    ) -> Json:
        """Create a token. Only this response has the `token` itself.

        Without `role`, its role is at most `user`. With `expires_in_days` None, it does not expire by itself."""
        given = {key: value for key, value in {"user": user, "role": role}.items() if value is not None}
        return await self._object("POST", "tokens", json={"name": name, **given, "expires_in_days": expires_in_days})

    async def revoke_token(self, token_id: int) -> None:
        """Revoke a token and all tokens that were made with it."""
        await self._nothing("DELETE", f"tokens/{token_id}")


def _registry_holder(group: str | None, shared: bool) -> dict[str, str | bool]:
    return {"shared": shared, **({"group": group} if group is not None else {})}
