"""Routes of sign-in. Browsers open them, so they answer with redirections and pages.

They need no role. The way back from the provider is checked against a cookie of the browser that went there."""

from __future__ import annotations

import html
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Annotated, cast
from urllib.parse import urlsplit

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import HTMLResponse, RedirectResponse, Response

from schedulearn.api.access.guard import COOKIE, SECURE_COOKIE, is_secure
from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.access.sign_in import MAX_SUBJECT, PROXY, ProxyUsers
from schedulearn.api.answers.model import AnswerModel
from schedulearn.api.settings import Settings
from schedulearn.api.state import cluster_of, credentials_of, quotas_of, settings_of
from schedulearn.features.sign_in.admission import Admission, Person, person_of
from schedulearn.features.sign_in.attempts import HOME, LIFE_S, Attempts, page_path
from schedulearn.scheduler.errors import ForbiddenError, NotFoundError, SchedulearnError

if TYPE_CHECKING:
    from schedulearn.api.outgoing.openid import Provider

log = logging.getLogger(__name__)

router = APIRouter(prefix="/api/v1", tags=["people"])

CALLBACK = "/api/v1/sign-in/callback"
_PROVIDER_PATH, _PROXY_PATH = "/api/v1/sign-in/provider", "/api/v1/sign-in/proxy"
_AT_ONCE = 8
"""Sign-ins that may wait for the provider at the same time. Anybody can begin one."""
_TELL_EVERY_S = 60.0
_MAKING = threading.Lock()
_ATTEMPT_COOKIE = "schedulearn_sign_in"
Text = Annotated[str, Query(max_length=4096)]


class SignInWay(AnswerModel):
    name: str = Field(description="name of the provider or proxy, for a button")
    path: str = Field(description="path that a browser opens; the parameter `to` is the page to return to")


class SignInOut(AnswerModel):
    provider: SignInWay | None = Field(description="sign-in by an OpenID Connect provider; null: there is none")
    proxy: SignInWay | None = Field(
        description="sign-in as the user whom a trusted proxy names in this request; null: it names none"
    )


class SignIns:
    """Sign-ins of one application. Threads share it."""

    def __init__(self, settings: Settings) -> None:
        self.attempts = Attempts()
        self.users = ProxyUsers(settings.sign_in_proxy) if settings.sign_in_proxy is not None else None
        self.provider: Provider | None = None
        if settings.oidc_issuer is not None and settings.public_url is not None:
            from schedulearn.api.outgoing.openid import Provider  # slow to import

            parts = urlsplit(settings.public_url)
            self.provider = Provider(settings, f"{parts.scheme}://{parts.netloc}{CALLBACK}")
        self._places = threading.BoundedSemaphore(_AT_ONCE)
        self._told_at: dict[str, float] = {}

    @contextmanager
    def place(self) -> Iterator[Provider]:
        """Hold one of the places of those who wait for the provider. Raises BusyError and NotFoundError."""
        if self.provider is None:
            raise NotFoundError("this service has no provider to sign in by: use a token")
        if not self._places.acquire(blocking=False):
            raise BusyError("many people sign in just now: try again in a few seconds")
        try:
            yield self.provider
        finally:
            self._places.release()

    def tell(self, kind: str, message: str) -> None:
        """Log a warning, once a minute for each kind: strangers can cause them."""
        now = time.monotonic()
        if now - self._told_at.get(kind, float("-inf")) >= _TELL_EVERY_S:
            self._told_at[kind] = now
            log.warning("%s", message)


class BusyError(SchedulearnError):
    """Too many sign-ins wait for the provider."""

    code = "busy"
    http_status = 503


@router.get("/sign-in")
@needs(Access.NOTHING)
def sign_in_ways(request: Request) -> SignInOut:
    """Return how people can sign in, besides tokens."""
    signing, name = _sign_ins(request), settings_of(request).sign_in_name
    named = signing.users is not None and signing.users.user_of(request.scope) != ""
    return SignInOut(
        provider=SignInWay(name=name, path=_PROVIDER_PATH) if signing.provider is not None else None,
        proxy=SignInWay(name=name, path=_PROXY_PATH) if named else None,
    )


@router.get("/sign-in/provider", include_in_schema=False)
@needs(Access.NOTHING)
def begin(request: Request, to: Text = HOME) -> Response:
    """Lead a browser to the provider."""
    try:
        signing = _sign_ins(request)
        attempt, sealed = signing.attempts.begin(to)
        with signing.place() as provider:
            url = provider.authorization_url(attempt.state, attempt.nonce, attempt.verifier)
    except SchedulearnError as error:
        return _refused(request, error)
    response = _redirect(url)
    secure = is_secure(request.scope)
    # Lax: the way back is a navigation from the provider's site.
    response.set_cookie(_attempt_cookie(secure), sealed, max_age=LIFE_S, httponly=True, samesite="lax", secure=secure)
    return response


@router.get("/sign-in/callback", include_in_schema=False)
@needs(Access.NOTHING)
def come_back(
    request: Request,
    state: Text = "",
    code: Text = "",
    iss: Annotated[str | None, Query(max_length=4096)] = None,
    error: Text = "",
) -> Response:
    """Sign in a person who comes back from the provider."""
    secure = is_secure(request.scope)
    try:
        signing = _sign_ins(request)
        attempt = signing.attempts.end(_cookie(request, _attempt_cookie(secure)), state)
        with signing.place() as provider:
            if not provider.names_itself(iss):
                raise ForbiddenError("the answer does not come from the provider of this service")
            if error or not code:
                shown = error if error.isascii() and error.replace("_", "").isalnum() else "no code"
                raise ForbiddenError(f"the provider did not sign you in ({shown[:60]})")
            claims = provider.claims(code, attempt.verifier, attempt.nonce)
        person = person_of(settings_of(request), provider.issuer, claims, os.geteuid())
        response = _signed_in(request, person, attempt.to)
    except SchedulearnError as refusal:
        response = _refused(request, refusal)
    response.delete_cookie(_attempt_cookie(secure), httponly=True, samesite="lax", secure=secure)
    return response


@router.get("/sign-in/proxy", include_in_schema=False)
@needs(Access.NOTHING)
def by_proxy(request: Request, to: Text = HOME) -> Response:
    """Sign in the user whom the proxy names."""
    try:
        users = _sign_ins(request).users
        if users is None:
            raise NotFoundError("this service trusts no proxy to name its users: use a token")
        if not users.trusts(request.scope):
            if users.says(request.scope):
                address = request.client.host if request.client is not None else "an unknown address"
                told = (
                    f"ignoring a header that names a user: {address}, which sent it, is not in sign_in_proxy.networks"
                )
                _sign_ins(request).tell("forgery", told)
            raise ForbiddenError(
                "this connection does not come from the proxy (setting sign_in_proxy.networks), so its headers are "
                "ignored: open the address of the proxy"
            )
        claims = users.claims_of(request.scope)
        if not 0 < len(claims["sub"]) <= MAX_SUBJECT or not claims["sub"].isprintable():
            raise ForbiddenError("the proxy names no user, or two: check the headers that it sets and removes")
        person = person_of(settings_of(request), PROXY, claims, os.geteuid())
        return _signed_in(request, person, page_path(to))
    except SchedulearnError as refusal:
        return _refused(request, refusal)


def _signed_in(request: Request, person: Person, to: str) -> Response:
    """Open a session for a person, and lead to the page. Raises ForbiddenError."""
    settings, credentials, db = settings_of(request), credentials_of(request), cluster_of(request).db
    admission = Admission(settings, credentials.own, settings.writable_data_sets)
    if person.role is None:
        credentials.change(db, lambda conn: admission.shut_out(conn, person))
        raise ForbiddenError(
            f"no rule lets {person.name or person.subject} sign in here: an admin may add one to sign_in_rules"
        )
    account = quotas_of(request).change(lambda conn: admission.admit(conn, person))
    credentials.open(db)  # the account may be new, or have another role
    cluster_of(request).loop.wake()
    named = person.subject if person.issuer == PROXY else ""
    cookie, seconds = credentials.sign_in(db, account, settings.sign_in_session, named)
    response = _redirect(to)
    secure = is_secure(request.scope)
    response.set_cookie(
        SECURE_COOKIE if secure else COOKIE,
        cookie,
        httponly=True,
        samesite="strict",
        secure=secure,
        max_age=int(seconds),
    )
    return response


def _refused(request: Request, error: SchedulearnError) -> Response:
    """Return a page with the reason. It is not passed to our page by the address, where anybody could write it."""
    if error.http_status >= 500:
        _sign_ins(request).tell(error.code, f"a sign-in failed: {error.detail}")
    else:
        log.info("a sign-in was refused: %s", error.detail)
    title = "Not signed in"
    text = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><h1>{title}</h1>"
        f'<p>{html.escape(error.detail)}</p><p><a href="{HOME}">Back to the sign-in page</a></p>'
    )
    return HTMLResponse(text, HTTPStatus(error.http_status), headers={"cache-control": "no-store"})


def _redirect(url: str) -> Response:
    return RedirectResponse(url, HTTPStatus.SEE_OTHER, headers={"cache-control": "no-store"})


def _attempt_cookie(secure: bool) -> str:
    return f"__Host-{_ATTEMPT_COOKIE}" if secure else _ATTEMPT_COOKIE


def _cookie(request: Request, name: str) -> str | None:
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(name)
    except CookieError:
        return None
    return found.value if found is not None else None


def _sign_ins(request: Request) -> SignIns:
    """Return the sign-ins of the application, made at the first request for them."""
    state = request.app.state
    with _MAKING:
        if not hasattr(state, "sign_ins"):
            state.sign_ins = SignIns(settings_of(request))
    return cast(SignIns, state.sign_ins)
