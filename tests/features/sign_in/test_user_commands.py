"""`schedulearn users`: link, unlink, disable and enable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from apis import Api, known_by, serve_api, token_for
from services import Result, invoke

TOKEN = "correct-horse-battery"
ISSUER = "https://id.lab.org/realms/lab"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path, token=TOKEN) as served:
        yield served


def test_users_are_linked_disabled_and_enabled(api: Api) -> None:
    with known_by(api, token_for(api, "ada", "user")) as ada:

        def said(*arguments: str, code: int = 0) -> Result:
            return invoke("users", *arguments, code=code, url=str(api.http.base_url), SCHEDULEARN_TOKEN=TOKEN)

        link = ("link", "ada", "--issuer", ISSUER, "--subject", "7d3c")
        assert said(*link).out == f"ada signs in by {ISSUER}\n"
        assert said(*link).out == f"ada signs in by {ISSUER}\n", "repeating it changes nothing"
        assert "id.lab.org" in said("ls").out
        assert said("disable", "ada").out == "ada is disabled\n"
        assert "disabled by admin" in said("ls").out
        assert ada.get("/api/v1/whoami").status_code == 401
        assert said("enable", "ada").out == "ada is enabled\n"
        assert ada.get("/api/v1/whoami").status_code == 200
        assert said("unlink", "ada").out == "ada no longer signs in by a provider\n"
        assert "not linked" in said("unlink", "ada", code=1).err
        assert "there is no user 'ben'" in said("disable", "ben", code=1).err
        head, row = said("ls").out.splitlines()
        assert (head.split()[4], row.split()[3]) == ("SIGN-IN", "token")
