"""`WS /api/v1/jobs/{id}/exec`: who may, what goes over it, what bounds it, and that it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from apis import Api, serve_api, token_for
from clusters import wait_for
from matrices import each
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from schedulearn.api.access.guard import COOKIE
from schedulearn.features.interactive.terminals.job_terminals import OF_A_JOB
from schedulearn.scheduler.runtimes.terminals.contract import Size

TOKEN = "correct-horse-battery"
CAT = {"command": ["cat"]}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path) as served:
        yield served


def running(api: Api, **fields: Any) -> str:
    job = api.submit(required_gpus=1, **fields)
    api.wait(job, "running")
    return job


@contextmanager
def socket(api: Api, job: str, wish: object = None, **headers: str) -> Iterator[ClientConnection]:
    url = str(api.http.base_url).replace("http", "ws") + f"/api/v1/jobs/{job}/exec"
    with connect(url, additional_headers=headers) as opened:
        if wish is not None:
            opened.send(json.dumps(wish))
        yield opened


def text(opened: ClientConnection) -> dict[str, Any]:
    message = opened.recv(timeout=10)
    assert isinstance(message, str), message
    found: dict[str, Any] = json.loads(message)
    return found


def closed_with(opened: ClientConnection) -> int:
    with pytest.raises(ConnectionClosed) as ended:
        opened.recv(timeout=10)
    assert ended.value.rcvd is not None
    return ended.value.rcvd.code


def terminals(api: Api) -> list[Any]:
    return [terminal for _, terminal in api.runtime.terminals.opened]


def test_input_output_resize_and_exit_code(api: Api) -> None:
    job = running(api)
    with socket(api, job, {"command": ["cat"], "terminal": {"columns": 80, "rows": 24}}) as opened:
        assert text(opened) == {"opened": {"rank": 0, "idle_after": 3600.0}}
        opened.send(b"hello\xff")
        assert opened.recv(timeout=10) == b"\x01hello\xff"
        opened.send(json.dumps({"resize": {"columns": 100, "rows": 30}}))
        wait_for(lambda: terminals(api)[0].sizes == [Size(80, 24), Size(100, 30)], what="the size")
        opened.send(json.dumps({"end_input": True}))
        assert text(opened) == {"exit_code": 0}
        assert closed_with(opened) == 1000
    wait_for(lambda: terminals(api)[0].closed, what="its end")


def test_a_socket_that_goes_takes_its_command_along(api: Api) -> None:
    job = running(api)
    with socket(api, job, CAT) as opened:
        text(opened)
    wait_for(lambda: terminals(api)[0].closed, what="its end")


def test_an_event_says_who_opened_what(tmp_path: Path) -> None:
    with serve_api(tmp_path, token=TOKEN) as api:
        job = running(api, user="ada")
        ada = token_for(api, "ada", "user")
        with socket(api, job, {"command": []}, authorization=f"Bearer {ada}") as opened:
            text(opened)
        [event] = [e for e in api.http.get(f"/api/v1/jobs/{job}/events").json()["items"] if e["kind"] == "job.terminal"]
        assert (event["actor"], event["data"]) == ("ada", {"rank": 0, "program": "a shell"})
        assert event["message"] == "ada runs a shell in rank 0 on local."


class TestWhoMay:
    def test_its_user_and_admins_and_nobody_else(self, tmp_path: Path) -> None:
        with serve_api(tmp_path, token=TOKEN) as api:
            job = running(api, user="ada")
            for name, role, enough in (("ada", "user", True), ("ben", "user", False), ("vic", "viewer", False)):
                token = token_for(api, name, role)
                if enough:
                    with socket(api, job, CAT, authorization=f"Bearer {token}") as opened:
                        assert "opened" in text(opened)
                else:
                    with pytest.raises(InvalidStatus) as refused, socket(api, job, authorization=f"Bearer {token}"):
                        pass
                    assert refused.value.response.status_code == 403
            with socket(api, job, CAT, authorization=f"Bearer {TOKEN}") as opened:
                assert "opened" in text(opened)
            with pytest.raises(InvalidStatus), socket(api, job):
                pass
            assert len(terminals(api)) == 2

    def test_the_page_by_its_cookie_and_no_other_page(self, tmp_path: Path) -> None:
        with serve_api(tmp_path, token=TOKEN) as api:
            job = running(api)
            api.http.post("/api/v1/session", json={"token": TOKEN})
            cookie = f"{COOKIE}={api.http.cookies[COOKIE]}"
            own = f"http://127.0.0.1:{api.http.base_url.port}"
            with socket(api, job, CAT, cookie=cookie, origin=own) as opened:
                assert "opened" in text(opened)
            other_port = f"http://127.0.0.1:{api.http.base_url.port - 1}"
            for origin in ("https://evil.example", other_port, "null"):
                with pytest.raises(InvalidStatus), socket(api, job, cookie=cookie, origin=origin):
                    pass

    def test_other_pages_can_not_even_without_a_token(self, api: Api) -> None:
        job = running(api)
        with pytest.raises(InvalidStatus), socket(api, job, origin="https://evil.example"):
            pass

    def test_a_token_that_is_revoked_ends_its_terminals(self, tmp_path: Path) -> None:
        with serve_api(tmp_path, token=TOKEN) as api:
            job = running(api, user="ada")
            token = token_for(api, "ada", "user")
            with socket(api, job, CAT, authorization=f"Bearer {token}") as opened:
                text(opened)
                [row] = [row for row in api.http.get("/api/v1/tokens").json()["items"] if row["name"] == "ada's"]
                assert api.http.delete(f"/api/v1/tokens/{row['id']}").status_code == 204
                opened.send(b"rm -rf /\n")
                with pytest.raises(ConnectionClosed):
                    opened.recv(timeout=10)
            wait_for(lambda: terminals(api)[0].closed, what="its end")

    @pytest.mark.parametrize(("name", "role", "becomes"), [("eve", "admin", "user"), ("ada", "user", "viewer")])
    def test_so_does_a_role_that_is_lowered(self, tmp_path: Path, name: str, role: str, becomes: str) -> None:
        with serve_api(tmp_path, token=TOKEN) as api:
            job = running(api, user="ada")
            token = token_for(api, name, role)
            with socket(api, job, KEPT, authorization=f"Bearer {token}") as opened:
                text(opened)
                api.http.patch(f"/api/v1/users/{name}", json={"role": becomes}).raise_for_status()
                opened.send(b"rm -rf /\n")
                with pytest.raises(ConnectionClosed):
                    opened.recv(timeout=10)
            wait_for(lambda: terminals(api)[0].closed, what="its end, though it was to be kept")


@pytest.fixture
def job(api: Api) -> str:
    return running(api)


@each(
    [
        "no JSON", "[]", "{}x", '{"command": "ls"}', '{"command": [1]}', '{"command": ["a\\u0000"]}',
        '{"command": [""]}', '{"rank": -1}', '{"rank": 1e99}', '{"terminal": {"columns": 0, "rows": 1}}',
        '{"terminal": {"columns": 80}}', '{"nonsense": 1}', json.dumps({"command": ["x" * 40_000]}),
        json.dumps({"command": ["x"] * 1001}), "x" * 70_000,
    ],
    "wish",
)  # fmt: skip
def test_what_makes_no_sense_is_refused(api: Api, job: str, wish: str) -> None:
    with socket(api, job) as opened:
        opened.send(wish)
        assert text(opened)["problem"]["code"] in ("invalid", "too_large")
        assert closed_with(opened) == 4422
    assert terminals(api) == []


class TestRefusals:
    def test_bytes_first(self, api: Api) -> None:
        with socket(api, running(api)) as opened:
            opened.send(b"ls\n")
            assert text(opened)["problem"]["code"] == "invalid"

    def test_a_job_that_is_not_there(self, api: Api) -> None:
        with socket(api, "nothing", CAT) as opened:
            assert text(opened)["problem"]["code"] == "not_found"
            assert closed_with(opened) == 4404

    def test_a_job_that_waits(self, api: Api) -> None:
        job = api.submit(required_gpus=100)
        with socket(api, job, CAT) as opened:
            problem = text(opened)["problem"]
            assert problem["code"] == "not_running"
            assert "queued" in problem["detail"]
            assert closed_with(opened) == 4409

    def test_a_rank_that_it_has_not(self, api: Api) -> None:
        with socket(api, running(api), {"rank": 3}) as opened:
            assert "no rank 3; running ranks: 0" in text(opened)["problem"]["detail"]

    def test_too_many_terminals_of_one_job(self, api: Api) -> None:
        job = running(api)
        with ExitStack() as stack:
            for _ in range(OF_A_JOB):
                text(stack.enter_context(socket(api, job, CAT)))
            with socket(api, job, CAT) as one_more:
                assert text(one_more)["problem"]["code"] == "too_many_terminals"

        def opens() -> bool:
            with socket(api, job, CAT) as again:
                return "opened" in text(again)

        wait_for(opens, what="room for another")

    def test_a_message_that_is_too_long(self, api: Api) -> None:
        with socket(api, running(api), CAT) as opened:
            text(opened)
            opened.send(bytes((64 << 10) + 1))
            assert text(opened)["problem"]["code"] == "too_large"
        wait_for(lambda: terminals(api)[0].closed, what="its end")


def test_one_in_which_nothing_happens_is_closed_and_told_why(tmp_path: Path) -> None:
    with serve_api(tmp_path, terminal_idle=0.3) as api, socket(api, running(api), CAT) as opened:
        assert text(opened)["opened"]["idle_after"] == 0.3
        problem = text(opened)["problem"]
        assert problem["code"] == "idle"
        assert "terminal_idle" in problem["detail"]
        wait_for(lambda: terminals(api)[0].closed, what="its end")


def test_a_service_that_stops_ends_them(tmp_path: Path) -> None:
    with serve_api(tmp_path) as api, ExitStack() as stack:
        opened = stack.enter_context(socket(api, running(api), CAT))
        text(opened)
    assert terminals(api)[0].closed


KEPT = {"command": ["cat"], "keep": True}


def kept_shell(api: Api, job: str) -> str:
    """A shell that was written to, and left."""
    with socket(api, job, KEPT) as opened:
        found = str(text(opened)["opened"]["id"])
        opened.send(b"before")
        assert opened.recv(timeout=10) == b"\x01before"
    return found


def test_a_shell_is_found_again_with_what_it_wrote(api: Api) -> None:
    job = running(api)
    shell = kept_shell(api, job)
    with socket(api, job, {"resume": shell}) as again:
        assert text(again)["opened"]["id"] == shell
        assert again.recv(timeout=10) == b"\x01before"
        again.send(b"after")
        assert again.recv(timeout=10) == b"\x01after"
        # Who comes last has it: two could not both type.
        with socket(api, job, {"resume": shell}) as third:
            assert closed_with_problem(again) == (4409, "taken")
            text(third)
            assert [third.recv(timeout=10) for _ in range(2)] == [b"\x01before", b"\x01after"]
            third.send(json.dumps({"end": True}))
            with pytest.raises(ConnectionClosed):
                third.recv(timeout=10)
    [terminal] = terminals(api)
    wait_for(lambda: terminal.closed, what="its end")
    with socket(api, job, {"resume": shell}) as late:
        assert text(late)["problem"]["code"] == "not_found"


def closed_with_problem(opened: ClientConnection) -> tuple[int, str]:
    code = text(opened)["problem"]["code"]
    return closed_with(opened), code


def test_a_shell_that_nobody_comes_back_to_ends(tmp_path: Path) -> None:
    with serve_api(tmp_path, terminal_keep=0.3) as api:
        job = running(api)
        shell = kept_shell(api, job)
        [terminal] = terminals(api)
        wait_for(lambda: terminal.closed, what="its end")
        with socket(api, job, {"resume": shell}) as late:
            assert text(late)["problem"]["code"] == "not_found"


def test_nobody_else_finds_a_shell(tmp_path: Path) -> None:
    with serve_api(tmp_path, token=TOKEN) as api:
        ada, root = (f"Bearer {token_for(api, name, role)}" for name, role in (("ada", "user"), ("eve", "admin")))
        job = running(api, user="ada")
        other = running(api, user="ada")
        with socket(api, job, KEPT, authorization=ada) as opened:
            shell = text(opened)["opened"]["id"]
        for where, who in ((job, root), (other, ada)):
            with socket(api, where, {"resume": shell}, authorization=who) as wrong:
                assert text(wrong)["problem"]["code"] == "not_found"
        with socket(api, job, {"resume": shell}, authorization=ada) as again:
            assert text(again)["opened"]["id"] == shell


def test_who_lost_the_right_to_a_job_lost_their_shells_in_it(tmp_path: Path) -> None:
    """Left for a moment, the page closed, and then taken by its id: with each way to lose a right in between."""
    with serve_api(tmp_path, token=TOKEN) as api:
        people = {name: token_for(api, name, role) for name, role in (("ada", "user"), ("eve", "admin"))}
        api.http.post("/api/v1/users", json={"name": "ben", "role": "user"}).raise_for_status()
        people["ben"] = made_token(api, "ben's", "ben")
        people["ada's screen"] = made_token(api, "ada's screen", "ada", role="viewer")
        job = running(api, user="ada")

        def left_by(**headers: str) -> str:
            with socket(api, job, KEPT, **headers) as opened:
                return str(text(opened)["opened"]["id"])

        def refused(shell: str, **headers: str) -> bool:
            try:
                with socket(api, job, {"resume": shell}, **headers) as opened:
                    return "problem" in text(opened)
            except InvalidStatus as status:
                return status.response.status_code in (401, 403)

        def bearer(name: str) -> dict[str, str]:
            return {"authorization": f"Bearer {people[name]}"}

        hers, admins = left_by(**bearer("ada")), left_by(**bearer("eve"))
        answer = httpx.post(f"{api.http.base_url}/api/v1/session", json={"token": people["ada"]})
        cookie = {"cookie": f"{COOKIE}={answer.cookies[COOKIE]}", "origin": str(api.http.base_url).rstrip("/")}
        assert not refused(hers, **cookie), "she has it by her page, too"
        tried = {
            "a token of another user": refused(hers, **bearer("ben")),
            "another admin": refused(hers, **bearer("eve")),
            "a token of hers for reading": refused(hers, **bearer("ada's screen")),
            "the admin's by the job's user": refused(admins, **bearer("ada")),
            "no token": refused(hers),
        }
        httpx.delete(f"{api.http.base_url}/api/v1/session", headers=cookie).raise_for_status()
        tried["signed out"] = refused(hers, **cookie)
        api.http.patch("/api/v1/users/eve", json={"role": "user"}).raise_for_status()
        tried["an admin no more"] = refused(admins, **bearer("eve"))
        api.http.patch("/api/v1/users/ada", json={"role": "viewer"}).raise_for_status()
        tried["a user no more"] = refused(hers, **bearer("ada"))
        api.http.patch("/api/v1/users/ada", json={"role": "user"}).raise_for_status()
        assert not refused(hers, **bearer("ada"))
        [row] = [row for row in api.http.get("/api/v1/tokens").json()["items"] if row["name"] == "ada's"]
        api.http.delete(f"/api/v1/tokens/{row['id']}").raise_for_status()
        tried["a token that was removed"] = refused(hers, **bearer("ada"))
        api.http.delete("/api/v1/users/ada", params={"jobs": "keep"}).raise_for_status()
        people["ada"] = token_for(api, "ada", "user")
        tried["a namesake"] = refused(hers, **bearer("ada"))
        assert [what for what, was_refused in tried.items() if not was_refused] == []


def made_token(api: Api, name: str, user: str, **fields: str) -> str:
    return str(api.http.post("/api/v1/tokens", json={"name": name, "user": user, **fields}).json()["token"])


def test_a_shell_that_ended_meanwhile_tells_how(api: Api) -> None:
    job = running(api)
    shell = kept_shell(api, job)
    [terminal] = terminals(api)
    terminal.end_input()
    with socket(api, job, {"resume": shell}) as again:
        assert text(again)["opened"]["id"] == shell
        assert again.recv(timeout=10) == b"\x01before"
        assert text(again) == {"exit_code": 0}
