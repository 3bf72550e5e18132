"""E-mail: what the settings allow, and what is said when the server refuses or is gone."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from schedulearn.api.settings import load_settings
from schedulearn.features.notices.mail import MailServer
from schedulearn.scheduler.errors import InvalidError

SENDER = "schedulearn@lab.org"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"smtp_host": "mail.lab.org"}, "set smtp_from"),
        ({"smtp_host": "mail.lab.org", "smtp_from": "a b"}, "set smtp_from"),
        ({"smtp_host": "mail.lab.org", "smtp_from": SENDER, "smtp_user": "u", "smtp_tls": "off"}, "set smtp_tls"),
        ({"smtp_port": 0}, "smtp_port"),
    ],
)
def test_incomplete_settings_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidError, match=words):
        load_settings(None, **given)


def test_the_password_is_in_no_text_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDULEARN_SMTP_PASSWORD", "hush hush")
    settings = load_settings(None, smtp_host="mail.lab.org", smtp_from=SENDER, smtp_user="u")
    server = MailServer.of(settings)
    assert server.password == "hush hush"
    assert "hush" not in f"{settings!r} {server!r} {settings.model_dump_json()}"


def test_a_server_that_is_not_there_and_a_password_that_is_missing_are_told(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        said = MailServer("127.0.0.1", port, "off", SENDER).send("ada@lab.org", "a", "b", "notice-1")
    assert said.startswith("the mail server can't be used: ")
    secret = tmp_path / "secret-place"
    server = MailServer("127.0.0.1", port, "off", SENDER, "u", password_file=secret)
    said = server.send("ada@lab.org", "a", "b", "notice-1")
    assert "smtp_password_file" in said
    assert "secret-place" not in said
    assert "no e-mail" in MailServer("", port, "off", SENDER).send("ada@lab.org", "a", "b", "notice-1")
