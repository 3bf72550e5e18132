"""Settings of sign-in by an identity provider or a proxy, and the rules for accounts."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator
from starlette.types import Scope

from schedulearn.scheduler.core.people import Role
from schedulearn.scheduler.core.planning.quotas import Quota
from schedulearn.scheduler.core.task import HIGHEST_ID, RunAs

PROXY = "proxy"
"""Issuer of identities that a proxy vouches for."""
MAX_ISSUER, MAX_SUBJECT = 500, 255
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._@-]*$"
_MAX_NAME = 100
_MAX_HEADER = 8192
_MAX_BOUND = 1e9
_POSITIVE = ("weight", "max_duration", "default_duration")

Claims = Mapping[str, Any]


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _known_keys(value: object) -> object:
    """Refuse unknown keys: pydantic ignores those of a dataclass."""
    known = [each.name for each in fields(Quota)]
    if isinstance(value, Mapping) and (unknown := [str(key) for key in value if key not in known]):
        raise ValueError(f"unknown keys {', '.join(unknown)}: a quota has {', '.join(known)}")
    return value


def _possible(quota: Quota) -> Quota:
    for name, value in asdict(quota).items():
        if value is None:
            continue
        if not math.isfinite(value) or not 0 <= value <= _MAX_BOUND or (value == 0 and name in _POSITIVE):
            raise ValueError(f"{name} is {value}: give a number from 0 to {_MAX_BOUND:.0f}, above 0 for {_POSITIVE}")
    return quota


def _network(text: str) -> str:
    ip_network(text)
    return text


def _issuer(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1"):
        return url
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("must be the https URL of the provider's issuer, without ? and #")
    return url


def _header(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9-]{1,100}", name):
        raise ValueError("must be the name of a header: letters, digits and '-'")
    return name


def _scope(name: str) -> str:
    if not name.isascii() or not name.isprintable() or not name or set(name) & set(' "\\'):
        raise ValueError("must be a scope: ASCII characters without blanks, quotes and backslashes")
    return name


class SignInRule(BaseModel):
    """Rule for the accounts of people with certain claims."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    match: dict[str, Annotated[list[str], BeforeValidator(_listed), Field(min_length=1)]] = Field(
        default_factory=dict,
        description="claim -> one value or several, of which the person has at least one; empty: everybody",
    )
    role: Role | Literal["none"] = Field(description="role of the account; none: these people may not sign in")
    group: Annotated[str, Field(max_length=100, pattern=NAME_PATTERN)] | None = Field(
        default=None, description="group of the account"
    )
    quota: Annotated[Quota, BeforeValidator(_known_keys), AfterValidator(_possible)] | None = Field(
        default=None, description="quota of the account"
    )

    @model_validator(mode="after")
    def _admins_are_named(self) -> Self:
        if self.role is Role.ADMIN and not self.match:
            raise ValueError("a rule with the role admin needs `match`: name the group of the admins")
        return self

    def applies(self, claims: Claims) -> bool:
        if "email" in self.match and claims.get("email_verified") is not True:
            return False  # anybody may type any address at some providers
        return all(_texts_of(claim_at(claims, name)) & set(values) for name, values in self.match.items())


class SignInClaims(BaseModel):
    """Names of the claims that make an account."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(default="preferred_username", min_length=1, description="name of the account")
    uid: str = Field(default="", description="user ID on the hosts; empty: an admin sets it")
    gid: str = Field(default="", description="group ID on the hosts")
    gids: str = Field(default="", description="additional group IDs on the hosts")

    @model_validator(mode="after")
    def _ids_are_whole(self) -> Self:
        if bool(self.uid) != bool(self.gid) or (self.gids and not self.uid):
            raise ValueError("uid and gid belong together, and gids needs both")
        return self


class SignInProxy(BaseModel):
    """Proxy that names the user of each request by a header."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    networks: list[Annotated[str, AfterValidator(_network)]] = Field(
        min_length=1, description="addresses of the proxy, such as 10.0.0.5/32; headers from others are ignored"
    )
    user_header: Annotated[str, AfterValidator(_header)] = "X-Forwarded-User"
    groups_header: Annotated[str, AfterValidator(_header)] = "X-Forwarded-Groups"
    email_header: Annotated[str, AfterValidator(_header)] = "X-Forwarded-Email"


class SignInSettings(BaseModel):
    """Settings of sign-in, which docs/sign-in.md describes."""

    oidc_issuer: Annotated[str, AfterValidator(_issuer), Field(max_length=MAX_ISSUER)] | None = Field(
        default=None, description="URL of the OpenID Connect provider by which people sign in, see docs/sign-in.md"
    )
    oidc_client_id: str = Field(default="", max_length=255, description="name of this service at `oidc_issuer`")
    oidc_client_secret: SecretStr = Field(
        default=SecretStr(""),
        description="secret of `oidc_client_id`; SCHEDULEARN_OIDC_CLIENT_SECRET keeps it out of files",
    )
    oidc_client_secret_file: Path | None = Field(
        default=None, description="file with the secret of `oidc_client_id`, instead of `oidc_client_secret`"
    )
    oidc_scopes: list[Annotated[str, AfterValidator(_scope)]] = Field(
        default_factory=lambda: ["openid", "profile", "email"], description="scopes to ask `oidc_issuer` for"
    )
    sign_in_name: str = Field(
        default="single sign-on", max_length=60, description="name of the provider or proxy on the sign-in page"
    )
    sign_in_rules: list[SignInRule] = Field(
        default_factory=list, max_length=200, description="who may sign in, and with which role, group and quota"
    )
    sign_in_claims: SignInClaims = Field(
        default_factory=SignInClaims, description="claims that give the name, uid, gid and gids of an account"
    )
    sign_in_session: float = Field(
        default=43_200.0, ge=300, le=604_800, description="seconds until a person must sign in again"
    )
    sign_in_max_age: float = Field(
        default=0.0,
        ge=0,
        le=3660,
        description="days after the last sign-in after which a person's tokens don't work until the next; 0: never",
    )
    sign_in_proxy: SignInProxy | None = Field(
        default=None, description="networks of a proxy that names the user of each request, and its headers"
    )

    @property
    def has_sign_in(self) -> bool:
        return self.oidc_issuer is not None or self.sign_in_proxy is not None

    def check_sign_in(self, public_url: str | None, *, behind_proxy: bool) -> None:
        """Raise ValueError for settings that don't go together."""
        if self.oidc_issuer is not None:
            if not self.oidc_client_id:
                raise ValueError("oidc_issuer needs oidc_client_id: register this service at the provider")
            if public_url is None:
                raise ValueError("oidc_issuer needs public_url: the provider sends people back to it")
            if "openid" not in self.oidc_scopes:
                raise ValueError("oidc_scopes needs openid: without it there is no ID token")
        if self.sign_in_proxy is not None and not behind_proxy:
            raise ValueError("sign_in_proxy needs behind_proxy: set behind_proxy to true")
        if self.has_sign_in and not self.sign_in_rules:
            raise ValueError("sign-in needs sign_in_rules: say who may sign in, such as [{match: ..., role: user}]")

    def client_secret(self) -> str:
        """Return the secret of the client; empty: a public client. Raises OSError."""
        given = self.oidc_client_secret.get_secret_value()
        if given or self.oidc_client_secret_file is None:
            return given
        return self.oidc_client_secret_file.read_text(encoding="utf-8").strip()

    def rule_for(self, claims: Claims) -> SignInRule | None:
        """Return the first rule that applies; None: nobody lets them in."""
        return next((rule for rule in self.sign_in_rules if rule.applies(claims)), None)


class ProxyUsers:
    """Users named by a trusted proxy. Headers from other addresses are ignored."""

    def __init__(self, proxy: SignInProxy) -> None:
        self._networks: list[IPv4Network | IPv6Network] = [ip_network(each) for each in proxy.networks]
        self._names = {
            key: header.lower().encode()
            for key, header in (
                ("sub", proxy.user_header),
                ("groups", proxy.groups_header),
                ("email", proxy.email_header),
            )
        }

    def trusts(self, scope: Scope) -> bool:
        """Return whether the connection itself comes from the proxy. No header counts for that."""
        client = scope.get("client")
        try:
            address = ip_address(client[0]) if client else None
        except ValueError:
            return False
        if address is None:
            return False
        address = getattr(address, "ipv4_mapped", None) or address  # of a listener for IPv4 and IPv6
        return any(address in network for network in self._networks)

    def user_of(self, scope: Scope) -> str:
        """Return the user that the proxy names; empty: it names none."""
        return self._value(scope, "sub") if self.trusts(scope) else ""

    def claims_of(self, scope: Scope) -> Claims:
        """Return what the proxy says of the user, as claims. The caller has checked `trusts`."""
        user, email = self._value(scope, "sub"), self._value(scope, "email")
        groups = [each.strip() for each in self._value(scope, "groups").split(",") if each.strip()]
        claims: dict[str, Any] = {"sub": user, "preferred_username": user, "groups": groups}
        return {**claims, "email": email, "email_verified": True} if email else claims

    def says(self, scope: Scope) -> bool:
        """Return whether a request names a user, from whatever address."""
        return any(name == self._names["sub"] for name, _ in scope["headers"])

    def _value(self, scope: Scope, key: str) -> str:
        """Return a header's only value. Of two, one may be the client's own: then neither counts."""
        found = [value for name, value in scope["headers"] if name == self._names[key]]
        if len(found) != 1 or len(found[0]) > _MAX_HEADER:
            return ""
        return str(found[0].decode("utf-8", "replace")).strip()


def claim_at(claims: Claims, name: str) -> Any:
    """Return a claim. A dot leads into an object, unless a claim has the whole name."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for each in name.split("."):
        found = found.get(each) if isinstance(found, Mapping) else None
    return found


def account_name(claims: Claims, name_claim: str) -> str:
    """Return the account name that a claim asks for, by the rules of account names. Raises ValueError."""
    given = claim_at(claims, name_claim)
    if not isinstance(given, str) or not given.strip():
        raise ValueError(f"the claim {name_claim!r} is missing: an operator must check sign_in_claims")
    if name_claim == "email" and claims.get("email_verified") is not True:
        raise ValueError("the provider has not verified the e-mail address")
    plain = unicodedata.normalize("NFKD", given[: 2 * _MAX_NAME]).casefold()
    kept = "".join(each for each in plain if not unicodedata.combining(each))
    name = "".join(each if each.isascii() and (each.isalnum() or each in "._@-") else "-" for each in kept)
    name = "-".join(filter(None, name.split("-")))[:_MAX_NAME].lstrip("._@-")
    if not any(each.isalnum() for each in name):
        raise ValueError(f"the claim {name_claim!r} gives no account name: it needs letters or digits")
    return name


def host_ids(claims: Claims, names: SignInClaims, user: str) -> RunAs | None:
    """Return the IDs on the hosts that the claims give; None: they give none. Raises ValueError."""
    if not names.uid or claim_at(claims, names.uid) is None:
        return None
    found = claim_at(claims, names.gids) if names.gids else None
    gids = found if isinstance(found, list) else [] if found is None else [found]
    uid, gid = _host_id(claim_at(claims, names.uid), names.uid), _host_id(claim_at(claims, names.gid), names.gid)
    return RunAs(user, uid, gid, tuple(_host_id(each, names.gids) for each in gids[:64]))


def _host_id(value: object, name: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 10:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= HIGHEST_ID:
        raise ValueError(f"the claim {name!r} is no ID: it must be a number from 1 to {HIGHEST_ID}")
    return value


def _texts_of(value: object) -> set[str]:
    """Return the values of a claim. Only text and its lists match; a verified address is never a list."""
    values: Sequence[object] = value if isinstance(value, list) else [value]
    return {each for each in values if isinstance(each, str)} | {
        str(each).lower() for each in values if isinstance(each, bool)
    }
