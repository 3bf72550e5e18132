"""schemathesis against the description of the API: no 5xx, no answer that is not described, nothing accepted that the
description forbids or refused that it allows, nothing stored by a refused request. `make test-schema` runs it long."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from apis import FIVE_KEYS, ROLES, serve_api, token_for
from fakes.runtime import FakeRuntime

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[3]
COMMAND = str(Path(sys.executable).with_name("st"))
EXAMPLES = int(os.environ.get("SCHEDULEARN_TEST_SCHEMA", "0"))
"""Of each operation, for the long run; 0: the short one."""
CONFIG = """[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 429, 431]
"""
"""431: what is too long in a query makes the request line too long as well. No 5xx."""
TOKEN = "correct-horse-battery"


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("role", [None, *ROLES], ids=lambda role: f"as {role}" if role else "without a token")
def test_the_api_is_as_it_is_described(tmp_path: Path, role: str | None) -> None:
    with serve_api(tmp_path / "data", gpus=0, make_runtime=lambda *_: FakeRuntime("far"), token=TOKEN) as api:
        api.submit(**FIVE_KEYS)
        token = token_for(api, f"some-{role}", role) if role else ""
        description = tmp_path / "openapi.json"
        description.write_text(api.http.get("/api/v1/openapi.json").text)  # nobody reads it without a token
        (tmp_path / "schemathesis.toml").write_text(CONFIG)
        phases = ["--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLES)] if EXAMPLES else [
            "--phases", "fuzzing", "--max-examples", "5", "--seed", "1"]  # fmt: skip
        done = subprocess.run(
            [
                COMMAND, "run", str(description), "--url", str(api.http.base_url), "--checks", "all",
                "--exclude-checks", "positive_data_acceptance", *phases, "--continue-on-failure", "--no-color",
                "--request-timeout", "60", "--warnings", "off", "--suppress-health-check", "all",
                *(["-H", f"Authorization: Bearer {token}"] if token else []),
            ],
            env={
                **os.environ, "SCHEMATHESIS_HOOKS": "schema_hooks", "PYTHONPATH": str(ROOT / "tests/support/attacks"),
                "SCHEDULEARN_TEST_DATABASE": str(api.directory / "schedulearn.db"),
            },
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        told = "\n".join(line[:400] for line in (done.stdout + done.stderr).splitlines())
        cases = re.search(r"(\d[\d,]*) generated", told)
        assert done.returncode == 0, told[-20_000:]
        assert cases is not None
        assert int(cases[1].replace(",", "")) > (5_000 if EXAMPLES else 150)  # of each of the four
        assert api.http.get("/api/v1/jobs").status_code == 200
