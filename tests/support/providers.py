"""Identity providers: a real one, and one that answers as an attacker would."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, urlsplit

import httpx
from apis import Api
from clusters import wait_for
from joserfc import jwt
from joserfc.jwk import RSAKey
from servers.ports import free_port

CLIENT, SECRET, NAME = "schedulearn", "client-secret-of-the-test", "Lab ID"
PUBLIC = "http://service.test"
START, CALLBACK = "/api/v1/sign-in/provider", "/api/v1/sign-in/callback"
RULES: list[dict[str, Any]] = [
    {"match": {"groups": "gpu-admins"}, "role": "admin"},
    {"match": {"groups": "alumni"}, "role": "none"},
    {"match": {"groups": ["vision", "speech"]}, "role": "user", "group": "vision", "quota": {"gpus": 2}},
    {"match": {"groups": "guests"}, "role": "viewer"},
]


def settings_for(issuer: str, **more: Any) -> dict[str, Any]:
    return {
        "oidc_issuer": issuer,
        "oidc_client_id": CLIENT,
        "oidc_client_secret": SECRET,
        "public_url": PUBLIC,
        "sign_in_name": NAME,
        "sign_in_rules": RULES,
        **more,
    }


@contextmanager
def real_provider() -> Iterator[str]:
    """The issuer of a provider from PyPI, in a process of its own: it uses what its library calls outdated."""
    port = free_port()
    issuer = f"http://localhost:{port}"
    command = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", str(port), "--require-nonce"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: process.poll() is not None or answers(f"{issuer}/jwks"), what="the provider")
        assert process.poll() is None
        yield issuer
    finally:
        process.terminate()
        process.wait(30)


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def know(issuer: str, subject: str, **claims: Any) -> None:
    """Let the provider know somebody."""
    httpx.put(f"{issuer}/users/{quote(subject)}", json=claims).raise_for_status()


@contextmanager
def browser_of(api: Api) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=api.http.base_url, timeout=30) as found:
        yield found


def begin(browser: httpx.Client, to: str = "/ui/jobs") -> str:
    """The URL of the provider to which the service leads."""
    answer = browser.get(START, params={"to": to})
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


def approve(url: str, subject: str) -> str:
    """Sign in at the provider, and return the path to which it leads back."""
    answer = httpx.post(url, data={"sub": subject})
    assert answer.status_code == 302, answer.text
    back = urlsplit(answer.headers["location"])
    assert f"{back.scheme}://{back.netloc}" == PUBLIC
    return f"{back.path}?{back.query}"


def sign_in(browser: httpx.Client, subject: str, to: str = "/ui/jobs") -> httpx.Response:
    return browser.get(approve(begin(browser, to), subject))


@dataclass
class Forger:
    """Provider whose answers a test chooses. It signs with a key of its own."""

    issuer: str = ""
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "one"}))
    published: list[RSAKey] | None = None
    """Keys that it publishes; None: its own."""
    discovery: dict[str, Any] = field(default_factory=dict)
    claims: dict[str, Any] = field(default_factory=dict)
    """Changes of the ID token; a value of None removes the claim."""
    userinfo: dict[str, Any] = field(default_factory=dict)
    subject: str = "7d3c"
    status: int = 200
    raw_token: str | None = None
    """ID token to send instead of a signed one."""
    asked: list[tuple[str, dict[str, str], dict[str, str]]] = field(default_factory=list)
    """Path, form and headers of each request."""
    nonce: str = ""
    hangs: threading.Event | None = None
    """Event for which an answer to a code waits."""

    def id_token(self, **header: str) -> str:
        now = int(time.time())
        claims = {
            "iss": self.issuer, "aud": CLIENT, "sub": self.subject, "nonce": self.nonce, "iat": now, "exp": now + 300,
            **self.claims,
        }  # fmt: skip
        kept = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode({"alg": "RS256", "kid": "one", **header}, kept, self.key)

    def signed_by_secret(self, secret: bytes) -> str:
        """A token with the algorithm HS256, keyed by what everybody may know."""
        body = self.id_token().split(".")[1]
        signed = f"{_base64(json.dumps({'alg': 'HS256', 'kid': 'one'}).encode())}.{body}"
        return f"{signed}.{_base64(hmac.digest(secret, signed.encode(), hashlib.sha256))}"

    def answer(self, path: str) -> tuple[int, Any]:
        if path == "/.well-known/openid-configuration":
            urls = {
                f"{name}": f"{self.issuer}/{name}"
                for name in ("authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri")
            }
            found = {"issuer": self.issuer, **urls, **self.discovery}
            return 200, {name: value for name, value in found.items() if value is not None}
        if path == "/jwks_uri":
            keys = self.published if self.published is not None else [self.key]
            return 200, {"keys": [each.as_dict(private=False) for each in keys]}
        if path == "/userinfo_endpoint":
            return 200, {"sub": self.subject, **self.userinfo}
        if self.hangs is not None:
            self.hangs.wait(60)
        token = self.raw_token if self.raw_token is not None else self.id_token()
        return self.status, {"access_token": "access", "token_type": "Bearer", "id_token": token}


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


@contextmanager
def forging_provider() -> Iterator[Forger]:
    forger = Forger()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("content-length", 0))
            form = dict(parse_qsl(self.rfile.read(length).decode()))
            forger.asked.append((self.path, form, {name.lower(): value for name, value in self.headers.items()}))
            status, content = forger.answer(self.path)
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        forger.issuer = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield forger
        finally:
            server.shutdown()
            thread.join()


def query_of(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


def come_back(browser: httpx.Client, forger: Forger, to: str = "/ui/jobs", **more: str) -> httpx.Response:
    """Begin a sign-in, and come back with a code of the forger."""
    sent = query_of(begin(browser, to))
    forger.nonce = sent["nonce"]
    return browser.get(CALLBACK, params={"state": sent["state"], "code": "some-code", **more})
