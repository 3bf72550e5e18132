"""Logins as engines get them, and messages without them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker import auth

from schedulearn.scheduler.runtimes.contract import RegistryLogin
from schedulearn.scheduler.runtimes.docker.registry_login import header_of, own_header, without

LOGIN = RegistryLogin("docker.io", "ada", "correct horse")


def engine(folder: Path, config: dict[str, Any]) -> Any:
    """An engine's client with this configuration of the service's own user."""
    file = folder / "config.json"
    file.write_text(json.dumps(config))
    return SimpleNamespace(api=SimpleNamespace(_auth_configs=auth.load_config(str(file)), credstore_env=None))


def decoded(header: dict[str, str]) -> Any:
    return json.loads(base64.urlsafe_b64decode(header["X-Registry-Auth"]))


def test_a_login_is_sent_for_its_registry_alone() -> None:
    header, trouble = header_of(LOGIN)
    sent = {"username": "ada", "password": "correct horse", "serveraddress": "https://index.docker.io/v1/"}
    assert (decoded(header), trouble) == (sent, "")


def test_the_services_own_login_is_read_from_its_file(tmp_path: Path) -> None:
    pair = base64.b64encode(b"robot:secret").decode()
    own = engine(tmp_path, {"auths": {"reg.lab": {"auth": pair}}})
    assert decoded(own_header(own, "reg.lab/image")[0])["password"] == "secret"
    assert own_header(own, "other.lab/image") == ({}, "")


def test_a_credential_helper_that_is_missing_is_told_and_stops_no_pull(tmp_path: Path) -> None:
    own = engine(tmp_path, {"credsStore": "not-installed-here"})
    with pytest.warns(UserWarning, match="not installed"):
        header, trouble = own_header(own, "reg.lab/image")
    assert header == {}
    assert "reg.lab needs a credential helper that can't run here" in trouble


def test_no_form_of_a_password_stays_in_a_message() -> None:
    forms = ("correct horse", base64.b64encode(b"ada:correct horse").decode(), header_of(LOGIN)[0]["X-Registry-Auth"])
    told = without(LOGIN, f"unauthorized: {' and '.join(forms)}")
    assert told == "unauthorized: *** and *** and ***"
    assert "correct horse" not in repr(LOGIN)
