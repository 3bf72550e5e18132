"""Logins to registries, as an engine gets them."""

from __future__ import annotations

import base64
import re

import docker.errors
from docker import auth
from docker.utils import parse_repository_tag

from schedulearn.scheduler.core.registries import DOCKER_HUB
from schedulearn.scheduler.errors import ImageUnavailable, RuntimeFault
from schedulearn.scheduler.runtimes.contract import RegistryLogin
from schedulearn.scheduler.runtimes.docker.api import Engine, explain, status_of

_HUB_URL = "https://index.docker.io/v1/"
_REFUSED = re.compile(
    r"\b40[13]\b|unauthorized|authentication required|no basic auth credentials|incorrect username or password|denied"
    r"|forbidden|manifest unknown",
    re.I,
)
"""Messages of engines that report a refusal of the registry as a failure of their own."""
_ASK_S = 20
"""Time limit of a check of a login."""
_SHORTEST = 4
"""Length below which a password is not replaced in messages: they would become unreadable."""


def header_of(login: RegistryLogin) -> tuple[dict[str, str], str]:
    """Return the header of a pull with a login, and no trouble: see `own_header`."""
    return {"X-Registry-Auth": auth.encode_header(_credentials(login)).decode()}, ""


def own_header(engine: Engine, repository: str) -> tuple[dict[str, str], str]:
    """Return the header of a pull with the login of the service's own user, if it has one.

    The second part says why a login that is configured could not be read; empty: no trouble."""
    registry, _ = auth.resolve_repository_name(repository)
    try:
        header = auth.get_config_header(engine.api, registry)
    except docker.errors.InvalidRepository:
        raise
    except docker.errors.DockerException:
        return {}, f" (the service's own login to {registry} needs a credential helper that can't run here)"
    return ({"X-Registry-Auth": header.decode() if isinstance(header, bytes) else header} if header else {}), ""


def without(login: RegistryLogin | None, text: str) -> str:
    """Return a message of the engine or the registry without the login's password."""
    if login is None:
        return text
    pair = f"{login.username}:{login.password}".encode()
    forms = {login.password, base64.b64encode(pair).decode(), auth.encode_header(_credentials(login)).decode()}
    for form in sorted(forms, key=len, reverse=True):
        if len(form) >= _SHORTEST:
            text = text.replace(form, "***")
    return text


def check_login(engine: Engine, login: RegistryLogin) -> str:
    """Implement `Images.check_login`: the engine asks the registry, as it does for a pull."""
    api = engine.api
    with engine.errors("ask a registry"):
        try:
            answer = api._post_json(f"{api.base_url}/v{api.api_version}/auth", data=_credentials(login), timeout=_ASK_S)
            api._raise_for_status(answer)
        except docker.errors.APIError as error:
            why = without(login, explain(error))
            if status_of(error) == 401 or _REFUSED.search(why):
                return why
            raise RuntimeFault(f"{login.registry} can't be asked: {why}") from None
    return ""


def confirm(engine: Engine, image: str, login: RegistryLogin | None) -> None:
    """Implement `Images.confirm`."""
    api = engine.api
    header, trouble = header_of(login) if login else own_header(engine, parse_repository_tag(image)[0])
    with engine.errors("ask a registry"):
        try:
            api._raise_for_status(api._get(api._url("/distribution/{0}/json", image), headers=header))
        except docker.errors.APIError as error:
            why = without(login, explain(error)) + trouble
            if status_of(error) in (400, 401, 403, 404) or _REFUSED.search(why):
                raise ImageUnavailable(
                    f"image {image!r} is here, but its registry does not let this job have it: {why}. Log in with "
                    "`schedulearn registry login`."
                ) from None
            raise RuntimeFault(f"the registry of {image!r} can't be asked: {why}") from None


def _credentials(login: RegistryLogin) -> dict[str, str]:
    address = _HUB_URL if login.registry == DOCKER_HUB else login.registry
    return {"username": login.username, "password": login.password, "serveraddress": address}
