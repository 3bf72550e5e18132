"""OpenID Connect provider: discovery, authorization requests, and the claims behind a code.

A provider that does not answer raises ProviderDownError. Its answers are never quoted: they hold tokens. Authlib is
imported at the first sign-in, since most services have none.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from schedulearn.api.access.sign_in import MAX_SUBJECT, Claims, SignInSettings
from schedulearn.scheduler.errors import ForbiddenError, SchedulearnError

TIMEOUT_S = 10.0
"""Maximum seconds to connect to the provider, and then to wait for its answer."""
LEEWAY_S = 60
"""Difference between our clock and the provider's that is allowed."""
METADATA_S = 3600.0
FAILURE_S = 5.0
"""Seconds for which an answer of the discovery, or its failure, is kept."""
KEYS_AGAIN_S = 30.0
"""Minimum seconds between two requests for keys: anybody may name an unknown one."""
_MAX_BYTES = 1 << 20
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")
"""Signatures by a key pair. `none`, and those by the client secret, are refused."""
_LOCAL = ("127.0.0.1", "localhost", "::1")


class ProviderDownError(SchedulearnError):
    """The provider does not answer, or not as OpenID Connect says."""

    code = "provider_down"
    http_status = 503


class Provider:
    """The provider that the settings name. Threads share it."""

    def __init__(
        self, settings: SignInSettings, redirect_uri: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        assert settings.oidc_issuer is not None
        self._settings = settings
        self.issuer = settings.oidc_issuer
        self._redirect_uri = redirect_uri
        self._clock = clock
        self._lock = threading.Lock()
        self._metadata: tuple[float, Mapping[str, Any] | ProviderDownError] | None = None
        self._keys: tuple[float, Any] | None = None

    def metadata(self) -> Mapping[str, Any]:
        """Return the provider's discovery document. Raises ProviderDownError."""
        with self._lock:
            now = self._clock()
            if self._metadata is None or self._metadata[0] <= now:
                try:
                    self._metadata = now + METADATA_S, self._discover()
                except ProviderDownError as error:
                    self._metadata = now + FAILURE_S, error
            found = self._metadata[1]
        if isinstance(found, ProviderDownError):
            raise ProviderDownError(found.detail)
        return found

    def _discover(self) -> Mapping[str, Any]:
        found = self._json("GET", f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
        if found.get("issuer") != self.issuer:
            raise ProviderDownError(
                f"the provider at {self.issuer} says it is {str(found.get('issuer'))[:200]!r}: set oidc_issuer to that"
            )
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"):
            if name not in found and name == "userinfo_endpoint":
                continue
            if not self._is_safe(found.get(name)):
                raise ProviderDownError(f"the provider at {self.issuer} has no valid {name}: it must be an https URL")
        return found

    def _is_safe(self, url: object) -> bool:
        if not isinstance(url, str):
            return False
        try:
            parts = urlsplit(url)
        except ValueError:
            return False
        plain = self.issuer.startswith("http:") and parts.scheme == "http" and parts.hostname in _LOCAL
        return plain or (parts.scheme == "https" and bool(parts.hostname))

    def authorization_url(self, state: str, nonce: str, verifier: str) -> str:
        """Return the URL at which a person signs in. Raises ProviderDownError."""
        from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
        from authlib.oauth2.rfc7636 import create_s256_code_challenge

        return str(
            prepare_grant_uri(
                self.metadata()["authorization_endpoint"],
                self._settings.oidc_client_id,
                "code",
                redirect_uri=self._redirect_uri,
                scope=" ".join(self._settings.oidc_scopes),
                state=state,
                nonce=nonce,
                code_challenge=create_s256_code_challenge(verifier),
                code_challenge_method="S256",
            )
        )

    def names_itself(self, issuer: str | None) -> bool:
        """Return whether the `iss` of a callback is right (RFC 9207): another provider may have sent the code."""
        if issuer is None:
            return self.metadata().get("authorization_response_iss_parameter_supported") is not True
        return issuer == self.issuer

    def claims(self, code: str, verifier: str, nonce: str) -> Claims:
        """Return what the provider says of the person behind a code.

        Raises ProviderDownError if it does not answer, and ForbiddenError if it refuses the code or its ID token is
        not for this sign-in."""
        answered = self._trade(code, verifier)
        access_token, id_token = answered.get("access_token"), answered.get("id_token")
        if not isinstance(access_token, str) or not isinstance(id_token, str):
            raise ProviderDownError(f"the provider at {self.issuer} sent no ID token: check oidc_scopes")
        claims = self._checked(id_token, nonce, access_token)
        endpoint = self.metadata().get("userinfo_endpoint")
        if endpoint is None:
            return claims
        more = self._json("GET", endpoint, headers={"authorization": f"Bearer {access_token}"})
        if more.get("sub") != claims["sub"]:
            raise ForbiddenError("the provider's answers are about two persons: sign in again")
        return {**more, **claims}

    def check(self) -> None:
        """Raise ProviderDownError unless people can sign in, as far as that shows before one does."""
        self.metadata()
        self._key_set()
        self._secret()

    def _secret(self) -> str:
        try:
            return self._settings.client_secret()
        except (OSError, ValueError) as error:
            raise ProviderDownError(
                "the file with the client secret can't be read: the operator must check oidc_client_secret_file"
            ) from error

    def _trade(self, code: str, verifier: str) -> Mapping[str, Any]:
        secret = self._secret()
        name, found = self._settings.oidc_client_id, self.metadata()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": verifier,
        }
        ways = found.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        auth = None
        if secret and "client_secret_basic" in ways:
            auth = httpx.BasicAuth(quote(name, safe=""), quote(secret, safe=""))
        else:
            form |= {"client_id": name, "client_secret": secret} if secret else {"client_id": name}
        return self._json("POST", found["token_endpoint"], data=form, auth=auth, refusals=True)

    def _checked(self, id_token: str, nonce: str, access_token: str) -> Claims:
        """Return the claims of an ID token that was issued for this sign-in. Raises ForbiddenError."""
        from authlib.oidc.core import CodeIDToken
        from joserfc.errors import JoseError

        options = {
            "iss": {"essential": True, "value": self.issuer},
            "aud": {"essential": True, "value": self._settings.oidc_client_id},
            **{name: {"essential": True} for name in ("sub", "exp", "iat", "nonce")},
        }
        params = {"client_id": self._settings.oidc_client_id, "nonce": nonce, "access_token": access_token}
        try:
            token = self._decoded(id_token)
            claims = CodeIDToken(token.claims, token.header, options, params)
            claims.validate(leeway=LEEWAY_S)
        except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise ForbiddenError(
                f"the provider's ID token is not valid for this sign-in ({_reason(error)}): sign in again"
            ) from error
        subject = claims["sub"]
        if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT or not subject.isprintable():
            raise ForbiddenError("the provider's ID token has no valid subject")
        return dict(claims)

    def _decoded(self, id_token: str) -> Any:
        """Return a token whose signature is the provider's. Keys may have changed since they were read."""
        from joserfc import jwt
        from joserfc.errors import JoseError

        try:
            return jwt.decode(id_token, self._key_set(), algorithms=_ALGORITHMS)
        except (JoseError, ValueError):
            if not self._forget_keys():
                raise
        return jwt.decode(id_token, self._key_set(), algorithms=_ALGORITHMS)

    def _key_set(self) -> Any:
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet, import_key

        with self._lock:
            known = self._keys
        if known is not None and known[0] + METADATA_S > self._clock():
            return known[1]
        found = self._json("GET", self.metadata()["jwks_uri"]).get("keys")
        keys = []
        for each in found if isinstance(found, list) else []:
            if not isinstance(each, dict) or each.get("kty") not in ("RSA", "EC", "OKP") or each.get("use") == "enc":
                continue  # a symmetric key would make everybody who can read it an issuer
            try:
                keys.append(import_key(each))
            except (JoseError, ValueError, TypeError, KeyError):
                continue
        if not keys:
            raise ProviderDownError(f"the provider at {self.issuer} has no key that signs ID tokens")
        with self._lock:
            self._keys = self._clock(), KeySet(keys)
            return self._keys[1]

    def _forget_keys(self) -> bool:
        """Forget the keys, unless they are fresh. Return whether they were forgotten."""
        with self._lock:
            if self._keys is None or self._keys[0] + KEYS_AGAIN_S > self._clock():
                return False
            self._keys = None
            return True

    def _json(self, method: str, url: str, *, refusals: bool = False, **request: Any) -> Mapping[str, Any]:
        """Return the JSON object that the provider answers. `refusals`: its status 400 or 401 refuses the sign-in."""
        host = urlsplit(url).netloc
        try:
            with (
                httpx.Client(timeout=TIMEOUT_S, headers={"accept": "application/json"}) as client,
                client.stream(method, url, **request) as response,
            ):
                body = b""
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > _MAX_BYTES:
                        raise ProviderDownError(f"the provider's answer is larger than {_MAX_BYTES} bytes ({host})")
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise ProviderDownError(
                f"the provider does not answer ({host}: {type(error).__name__}): try again later, or sign in by a token"
            ) from error
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
        if refusals and response.status_code in (400, 401):
            self._refuse(found)
        if response.status_code != 200 or not isinstance(found, dict):
            raise ProviderDownError(
                f"the provider answered {response.status_code} without what was asked for ({host}{urlsplit(url).path})"
            )
        return found

    def _refuse(self, found: object) -> None:
        code = found.get("error") if isinstance(found, dict) else None
        if code in ("invalid_client", "unauthorized_client"):
            raise ProviderDownError(
                "the provider refuses this service: the operator must check oidc_client_id and its secret"
            )
        raise ForbiddenError("the provider refuses the code: it serves once, for a few minutes; sign in again")


def _reason(error: Exception) -> str:
    """Return what is wrong with a token, in words that hold nothing of it."""
    claim = getattr(error, "claim", None)
    return f"claim {claim}" if isinstance(claim, str) and claim.isidentifier() else type(error).__name__
