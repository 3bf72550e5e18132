"""`schedulearn.Client` and `AsyncClient` against a service, and each example of docs/python.md."""

from __future__ import annotations

import asyncio
import builtins
import inspect
import io
import re
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from services import IMAGE, Service

from schedulearn import ApiError, AsyncClient, Client, Job, UnreachableError
from schedulearn.api.client.progress import ProgressLine, share_done

PAGE = Path(__file__).parents[2] / "docs/python.md"
SPEC = {"name": "n", "type": "t", "container_image": IMAGE, "command": "true", "required_gpus": 1, "launcher": "none"}


def test_every_example_of_the_page_runs_as_printed(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SCHEDULEARN_URL", service.url)
    monkeypatch.chdir(tmp_path)  # where the page makes a data set
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len(blocks) == 6
    names: dict[str, Any] = {"__name__": "__main__"}
    out = io.StringIO()
    with redirect_stdout(out):
        for block in blocks:
            exec(compile(block.replace("schedulearn/pytorch", IMAGE), str(PAGE), "exec"), names)
    names["api"].close()
    assert "succeeded 0 " in out.getvalue()
    assert names["names"] == ["digits", "digits"]
    assert "faces@1 1 1 None\n" in out.getvalue()
    assert (tmp_path / "faces-back" / "one.txt").read_text() == "1"
    assert "422 invalid" in out.getvalue()
    assert "did you mean 'priority'?" in out.getvalue()
    assert "no Schedulearn answers at http://127.0.0.1:9" in out.getvalue()


def test_both_clients_have_the_same_methods_with_the_same_parameters() -> None:
    ours, theirs = ({name: of for name, of in inspect.getmembers(each, inspect.isfunction) if name[0] != "_"}
                    for each in (AsyncClient, Client))  # fmt: skip
    assert ours.keys() == theirs.keys()
    assert {"submit", "advise", "experiment", "sweep", "download", "files", "hosts", "set_quota"} <= ours.keys()
    for name in ours:
        mine, other = (inspect.signature(each[name]).parameters.values() for each in (ours, theirs))
        assert [(p.name, p.kind, bool(p.default)) for p in mine] == [(p.name, p.kind, bool(p.default)) for p in other]
    told = {name for name in ours if inspect.getdoc(ours[name]) != inspect.getdoc(theirs[name])}
    assert told == {"all_jobs"}, "one yields jobs, the other returns them"


def test_the_async_client_asks_for_all_that_the_other_does(service: Service, tmp_path: Path) -> None:
    """One call of each kind of answer: an object, a list, text, nothing, pages, files."""
    job = {key: value for key, value in SPEC.items() if key != "name"}
    sweep = {"name": "s", "job": {**job, "command": "echo {n}"}, "grid": {"n": [1, 2]}}

    async def main() -> None:
        async with AsyncClient(service.url) as api:
            assert (await api.health())["status"] == "ok"
            assert [host["id"] for host in await api.hosts()] == ["local"]
            assert "schedulearn_jobs" in await api.metrics()
            spec = {**SPEC, "command": "sh -c 'echo 1 > $SCHEDULEARN_OUTPUT_DIR/one'"}
            made, started = await asyncio.gather(api.submit(spec), api.start_sweep(sweep))
            assert (await api.wait(made)).succeeded
            assert [item["name"] for item in (await api.files(made.id, "outputs"))["items"]] == ["one"]
            assert (await api.download(made.id, "outputs/one", tmp_path)).read_text() == "1\n"
            assert len((await api.sweep(started["id"]))["table"]) == 2
            hook = await api.add_webhook({"url": "http://127.0.0.1:9/", "events": ["job.ended"]})
            await api.remove_webhook(hook["id"])
            assert (await api.webhooks())["items"] == []
            assert not await api.has_code("sha256:" + "0" * 64)
            with pytest.raises(ApiError, match="objectiv: there is no such key"):
                await api.advise({"objectiv": "time"})

    asyncio.run(main())


def test_wait_raises_after_its_timeout_and_tells_of_each_look(service: Service) -> None:
    with Client(service.url) as api:
        job = api.submit({**SPEC, "command": "sleep 60"})
        seen: list[Job] = []
        began = time.monotonic()
        with pytest.raises(TimeoutError, match=f"job {job.id} is still"):
            api.wait(job, 0.5, on_look=seen.append)
        assert time.monotonic() - began >= 0.5
        assert len(seen) >= 2
        assert api.cancel(job).state in ("stopping", "cancelled")
        assert api.wait(job.id).state == "cancelled"


def test_waits_and_streams_of_the_async_client_survive_a_restart(
    start_service: Callable[..., Service], tmp_path: Path
) -> None:
    service, flag = start_service(), tmp_path / "go"
    job_id = service.submit_shell(f"echo one; while [ ! -e {flag} ]; do sleep 0.02; done; echo two; exit 3")
    service.wait(job_id, "running")

    async def follow(api: AsyncClient, read: asyncio.Event) -> str:
        text = ""
        async for piece in api.follow_logs(job_id):
            text += piece.text
            read.set()
        return text

    async def main() -> tuple[Job, str]:
        async with AsyncClient(service.url) as api:
            read, looked = asyncio.Event(), asyncio.Event()
            waiting = asyncio.create_task(api.wait(job_id, on_look=lambda job: looked.set()))
            following = asyncio.create_task(follow(api, read))
            await read.wait()
            await looked.wait()
            await asyncio.to_thread(service.kill)
            await asyncio.to_thread(service.start)
            flag.touch()
            return await waiting, await following

    job, text = asyncio.run(main())
    assert (job.state, job.exit_code, text) == ("failed", 3, "one\ntwo\n")


def test_the_async_client_tells_what_is_wrong_as_the_other_does(service: Service) -> None:
    async def refused(api: AsyncClient) -> ApiError:
        with pytest.raises(ApiError) as found:
            [_ async for _ in api.logs("0000000000")]
        return found.value

    async def main() -> None:
        async with AsyncClient(service.url) as api:
            assert (await refused(api)).status == 404
            with pytest.raises(ApiError, match="did you mean 'priority'"):
                await api.submit({**SPEC, "prioritty": 3})
            job = await api.submit(SPEC)
            assert (await api.wait(job, 60)).succeeded
            assert job.id in [each.id async for each in api.all_jobs(["succeeded"])]
            assert (await api.job_events(job))["items"][0]["kind"] == "job.queued"
        with pytest.raises(UnreachableError):
            await AsyncClient("http://127.0.0.1:9").show("x")

    asyncio.run(main())


JOB: dict[str, Any] = {
    "id": "0a", "name": "<b>", "state": "running", "message": "It runs.", "exit_code": None, "run_seconds": 30.0,
    "eta": {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:01:30Z"},
}  # fmt: skip
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_progress_is_the_share_of_what_is_expected() -> None:
    assert share_done(Job(JOB), NOW) == 0.25
    assert share_done(Job({**JOB, "eta": None}), NOW) == 0.0
    assert share_done(Job({**JOB, "state": "failed"}), NOW) == 1.0


def test_a_notebook_gets_one_line_that_is_written_over_and_a_file_a_line_a_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = io.StringIO()
    line = ProgressLine(plain)
    for state in ("queued", "running", "running", "succeeded"):
        line.show(Job({**JOB, "state": state}))
    assert plain.getvalue() == "0a queued: It runs.\n0a running: It runs.\n0a succeeded: It runs.\n"
    monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)
    notebook = io.StringIO()
    line = ProgressLine(notebook)
    for state in ("running", "running", "succeeded"):
        line.show(Job({**JOB, "state": state}))
    assert notebook.getvalue().count("\r") == 3
    assert notebook.getvalue().count("\n") == 1
    assert "[########################] 100% succeeded" in notebook.getvalue()
    assert "&lt;b&gt;" in Job(JOB)._repr_html_()
