"""events, timeline, telemetry, policy history; webhooks and tokens."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from clusters import wait_for
from services import Service, invoke

from schedulearn.api.cli.history import _cell
from schedulearn.features.webhooks.spec import EVENTS

NASTY = "\x1b[31mred\x07 [bold]markup[/bold]"
ESCAPED = "\\x1b[31mred\\x07 [bold]markup[/bold]"


@pytest.fixture(scope="module")
def done(shared_service: Service) -> str:
    job_id = shared_service.submit_shell("sleep 1", name=f"b{NASTY}", user="ada")
    shared_service.wait(job_id, "succeeded")
    return job_id


@pytest.fixture
def hook(service: Service) -> Iterator[int]:
    made = service.invoke("webhooks", "add", "http://127.0.0.1:9/hook", "--event", "job.failed", "--json").json
    yield made["id"]
    service.invoke("webhooks", "rm", str(made["id"]))


def test_events_are_searched_and_followed(service: Service, done: str) -> None:
    lines = service.invoke("events", "--job", done).out.splitlines()
    assert lines[0].split() == ["AT", "KIND", "OF", "BY", "WHAT"]
    assert lines[1].split()[2] == "job.queued"
    assert lines[-1].split()[2:4] == ["job.succeeded", done]
    assert service.invoke("events", "--job", done, "--kind", "job.succ", "--json").json["items"][0]["job_id"] == done
    assert "leave the filters out" in service.invoke("events", "-f", "--job", done, code=2).err
    with service.begin("events", "-f", "--json") as following:
        told: list[str] = []
        threading.Thread(target=lambda: told.append(following.stdout.readline()), daemon=True).start()
        # Again and again, since it is not known when it begins to listen.
        wait_for(lambda: service.http.request("PUT", "/api/v1/policy", json={"algorithm": "goodput"}) and told)
        assert json.loads(told[0])["kind"] == "policy.changed"


def test_events_of_a_user_are_exported(service: Service) -> None:
    own = service.http.get("/api/v1/whoami").json()["name"]
    for name in ("audited-1", "audited-2"):
        service.http.post("/api/v1/users", json={"name": name}).raise_for_status()
    rows = list(
        csv.DictReader(service.invoke("events", "--about", "user:audited-1", "--format", "csv").out.splitlines())
    )
    assert [(row["kind"], row["actor"], row["address"]) for row in rows] == [("user.created", own, "127.0.0.1")]
    by_me = service.invoke("events", "--actor", own, "--kind", "user.", "--since", "1h", "--format", "jsonl")
    assert [json.loads(line)["about"] for line in by_me.out.splitlines()][:2] == ["user:audited-2", "user:audited-1"]
    assert len(service.invoke("events", "--actor", "*", "-n", "1").out.splitlines()) == 2
    assert service.invoke("events", "--actor", own, "--until", "2020-01-01", "--json").json["items"] == []
    assert "leave the filters out" in service.invoke("events", "-f", "--actor", own, code=2).err


def test_a_cell_is_no_formula_of_a_spreadsheet() -> None:
    assert [_cell(text) for text in ("=1+1", "@x", "-1", "plain", 7)] == ["'=1+1", "'@x", "'-1", "plain", 7]


def test_timeline_and_telemetry_of_a_job(service: Service, done: str) -> None:
    out = service.invoke("timeline", "--since", "1h").out
    line = next(line for line in out.splitlines() if done in line)
    assert f"b{ESCAPED}" in line
    assert " ada " in line
    assert " local:" in line
    assert line.endswith("completed")
    table = service.invoke("telemetry", "--host", "local")
    assert table.out.splitlines()[0].split() == [
        "HOST",
        "GPU",
        "POINTS",
        "UTILIZATION",
        "MEMORY",
        "TEMPERATURE",
        "POWER",
    ]
    gpus, *_ = table.out.partition("\n\n")  # what the host itself took may follow
    assert len(gpus.splitlines()) == 5
    found = wait_for(lambda: service.invoke("telemetry", "--job", done, "--json").json["gpus"])
    assert found[0]["host"] == "local"
    assert "--job JOB or --host HOST" in service.invoke("telemetry", code=2).err
    assert "'--since': 'soon' is not a time" in service.invoke("timeline", "--since", "soon", code=2).err


def test_policy_history_is_listed(service: Service) -> None:
    service.invoke("policy", "set", "las")
    service.invoke("policy", "set", "goodput")
    lines = service.invoke("policy", "history").out.splitlines()
    assert [line.split()[2] for line in lines[-2:]] == ["las", "goodput"]


def test_webhooks_by_the_command_line(service: Service, hook: int) -> None:
    assert service.invoke("webhooks", "ls").out.splitlines()[1].split()[:2] == [str(hook), "job.failed"]
    assert "not accepted: " in service.invoke("webhooks", "test", str(hook), code=1).out
    line = service.invoke("webhooks", "ls").out.splitlines()[1]
    assert "refused" in line.lower()
    assert service.invoke("webhooks", "pause", str(hook)).out == f"webhook {hook} is paused\n"
    assert service.invoke("webhooks", "resume", str(hook)).out == f"webhook {hook} is active\n"
    assert "must begin with http" in service.invoke("webhooks", "add", "ftp://x", code=1).err
    assert all(name in service.invoke("webhooks", "add", "--help").out for name in EVENTS)
    assert "there is no webhook 999" in service.invoke("webhooks", "rm", "999", code=1).err


def test_a_secret_is_not_on_the_command_line(service: Service) -> None:
    made = invoke(
        *("webhooks", "add", "http://127.0.0.1:9/", "--signed", "--json"),
        url=service.url, SCHEDULEARN_WEBHOOK_SECRET="hush",
    ).json  # fmt: skip
    assert made["signed"] is True
    assert "hush" not in service.invoke("webhooks", "ls", "--json").out
    service.invoke("webhooks", "rm", str(made["id"]))


def test_tokens_by_the_command_line(service: Service) -> None:
    made = service.invoke("tokens", "add", f"c{NASTY}", code=1)
    assert "can be shown" in made.err
    made = service.invoke("tokens", "add", "ada's laptop")
    assert made.out.startswith("sl_")
    assert len(made.out.splitlines()) == 1, "nothing but the token, for $(...)"
    assert re.search(r"as user, until \d{4}-", made.err)
    lasting = service.invoke("tokens", "add", "wall", "--role", "viewer", "--no-expiry", "--json").json
    assert (lasting["role"], lasting["expires_at"]) == ("viewer", None)
    service.invoke("tokens", "rm", str(lasting["id"]))
    listed = service.invoke("tokens", "ls")
    assert "ada's laptop" in listed.out
    assert made.out.strip() not in listed.out
    assert "the account that runs the service needs none" in listed.err
    [token] = service.invoke("tokens", "ls", "--json").json["items"]
    assert service.invoke("tokens", "rm", str(token["id"])).out == f"token {token['id']} is revoked\n"


def test_usage_at_the_prices_that_are_set_and_what_was_idle(start_service: Callable[..., Service]) -> None:
    service = start_service(env={"SCHEDULEARN_GPU_PRICES": '{"*": 2.5}', "SCHEDULEARN_CURRENCY": "EUR"})
    service.wait(service.submit("sleep 0", gpus=2, user="ada"), "succeeded")
    with closing(sqlite3.connect(service.data / "schedulearn.db", timeout=10)) as db, db:
        db.execute("INSERT INTO capacity VALUES (?, 4)", [time.time() - 3 * 86_400])
    [row] = service.invoke("usage", "--json").json
    assert (row["cost"], row["currency"]) == (pytest.approx(2.5 * row["gpu_hours"], abs=1e-3), "EUR")
    table = service.invoke("usage").out.splitlines()
    assert table[0].split() == ["USER", "JOBS", "GPU-HOURS", "ENERGY-KWH", "COST"]
    assert table[1].split()[-1] == "EUR"
    assert service.invoke("usage", "--price", "0", "--json").json[0]["cost"] == 0

    found = service.invoke("usage", "--capacity", "--since", "2d", "--json").json
    assert sum(day["gpu_hours"] for day in found["days"]) == pytest.approx(2 * 24 * 4, rel=0.01)
    lines = service.invoke("usage", "--capacity", "--since", "2d").out.splitlines()
    assert lines[0].split() == ["DAY", "GPU-HOURS", "HELD", "IDLE", "SHARE"]
    assert len(lines) == len(found["days"]) + 1
    assert "only with --since" in service.invoke("usage", "--capacity", "--by", "day", code=2).err
