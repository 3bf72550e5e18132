"""A login where no authority vouches for the service."""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import click
import pytest
from services import Service, invoke

from schedulearn.api.client.trust import lasting
from schedulearn.features.accounts.commands import login as commands


def test_an_unknown_certificate_is_shown_and_a_known_one_kept(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = service.env["SCHEDULEARN_CA"]
    home = {"HOME": str(tmp_path)}
    monkeypatch.setenv("HOME", str(tmp_path))
    said = invoke("login", service.url, code=1, **home).err
    assert f"Its fingerprint is {known}: compare it, then add --ca {known}" in said
    assert not (tmp_path / ".config").exists()

    def approve(page: str) -> int:
        [code] = parse_qs(urlsplit(page).query)["code"]
        service.call("POST", f"/api/v1/logins/{code}/approve", {"role": "viewer"})
        return 0

    monkeypatch.setattr(commands, "_has_browser", lambda: True)
    monkeypatch.setattr(click, "launch", approve)
    assert "as root (viewer)" in invoke("login", service.url, "--ca", known, **home).out.replace(
        str(service.call("GET", "/api/v1/whoami")["name"]), "root"
    )
    assert invoke("whoami", "--json", **home).json["role"] == "viewer"
    [file] = (tmp_path / ".config/schedulearn/contexts").iterdir()
    assert json.loads(file.read_text())["ca"] == known
    lines = invoke("client", **home).out
    assert f"--trusted-host {urlsplit(service.url).netloc}" in lines
    assert f"#sha256={service.call('GET', '/api/v1/client')['sha256']}" in lines


def test_a_certificate_in_a_file_is_kept_by_its_whole_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCHEDULEARN_CA", raising=False)
    assert lasting("cert.pem") == os.path.abspath("cert.pem")
    assert (lasting("sha256:ab"), lasting(None)) == ("sha256:ab", None)
    monkeypatch.setenv("SCHEDULEARN_CA", "sha256:cd")
    assert lasting(None) == "sha256:cd"
