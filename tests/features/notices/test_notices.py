"""Notices through the real application: to a real mail server and real HTTP receivers, and who may see what."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword
from apis import FIVE_KEYS, Api, known_by, serve_api, token_for
from clusters import wait_for
from matrices import each
from services import invoke

HERE = ["127.0.0.0/8"]
TOKEN = "a-token-for-the-service"
PASSWORD = "correct horse battery"


class AnyPort(Controller):
    """Controller for port 0, which stands for a free one."""

    def _trigger_server(self) -> None:
        assert self.server is not None
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


class Mailbox:
    """A real mail server. `answer`: what it says to each message."""

    def __init__(self) -> None:
        self.got: list[tuple[str, EmailMessage]] = []
        self.answer = "250 OK"
        self.logins: list[bytes] = []
        self.controller = AnyPort(self, hostname="127.0.0.1", port=0, authenticator=self._login, auth_require_tls=False)
        self.controller.start()
        self.port: int = self.controller.port

    def _login(self, _server: SMTP, _session: Any, _envelope: Envelope, _how: str, data: LoginPassword) -> AuthResult:
        self.logins.append(data.password)
        return AuthResult(success=data.password == PASSWORD.encode(), handled=False)

    async def handle_RCPT(
        self, _server: SMTP, _session: Any, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        if address.startswith("nobody@"):
            return f"550 no such user {address} password={PASSWORD}"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, _session: Any, envelope: Envelope) -> str:
        if self.answer.startswith("250"):
            found = message_from_bytes(envelope.original_content or b"", policy=policy.default)
            assert isinstance(found, EmailMessage)
            self.got += [(address, found) for address in envelope.rcpt_tos]
        return self.answer

    def of(self, address: str) -> list[EmailMessage]:
        return [message for to, message in self.got if to == address]


class Receiver:
    """A real HTTP server that answers `status` to all."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.status = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.got.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(outer.status)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.at = f"127.0.0.1:{self.server.server_port}"


@pytest.fixture(scope="module")
def mailbox() -> Iterator[Mailbox]:
    """One mail server for all tests here, each with recipients of its own."""
    made = Mailbox()
    yield made
    made.controller.stop()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, mailbox: Mailbox) -> Iterator[Api]:
    """One service for all tests here, each with accounts of its own."""
    with serve_api(
        tmp_path_factory.mktemp("notices"), token=TOKEN, notice_networks=HERE, public_url="https://gpus.lab.org",
        smtp_host="127.0.0.1", smtp_port=mailbox.port, smtp_tls="off", smtp_from="schedulearn@lab.org",
        smtp_user="schedulearn", smtp_password=PASSWORD, smtp_domains=["lab.org"],
    ) as served:  # fmt: skip
        yield served


_numbers = itertools.count()
Person = Callable[..., httpx.Client]
"""Name and role of a new account -> its client."""


@pytest.fixture
def person(api: Api) -> Iterator[Person]:
    with ExitStack() as clients:

        def add_person(name: str, role: str = "user") -> httpx.Client:
            token = token_for(api, f"{name}-{next(_numbers)}", role)
            return clients.enter_context(known_by(api, token))

        yield add_person


def submit(http: httpx.Client, **keys: Any) -> str:
    answer = http.post("/api/v1/jobs", json={**FIVE_KEYS, **keys})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def add(http: httpx.Client, name: str, address: str, **more: Any) -> dict[str, Any]:
    answer = http.put(f"/api/v1/notify/{name}", json={"address": address, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def notices(http: httpx.Client, job: str) -> list[dict[str, Any]]:
    answer = http.get(f"/api/v1/jobs/{job}/notices")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def cancelled(api: Api, http: httpx.Client, **keys: Any) -> str:
    """The id of a job that ran and was cancelled."""
    job = submit(http, **keys)
    api.wait(job, "running")
    assert http.post(f"/api/v1/jobs/{job}/cancel").status_code in (200, 202)
    api.wait(job, "cancelled")
    return job


def test_the_end_of_a_job_comes_by_mail_once(api: Api, person: Person, mailbox: Mailbox) -> None:
    ada = person("ada")
    job = cancelled(api, ada, notify="end@lab.org", name="resnet50")
    wait_for(lambda: [each["state"] for each in notices(ada, job)] == ["sent"], what="the notice to be sent")
    [message] = mailbox.of("end@lab.org")
    assert set(mailbox.logins) == {PASSWORD.encode()}
    assert message["subject"] == "Schedulearn: resnet50 cancelled"
    assert message["from"] == "schedulearn@lab.org"
    [notice] = notices(ada, job)
    assert message["message-id"].startswith(f"<notice-{notice['id']}-")
    assert f"https://gpus.lab.org/jobs/{job}" in str(message.get_content())
    assert (notice["event"], notice["to"], notice["error"]) == ("end", "end@lab.org", "")


def test_me_means_the_addresses_of_the_account_with_their_events(api: Api, person: Person, receiver: Receiver) -> None:
    ada = person("ada")
    add(ada, "phone", f"ntfy://{receiver.at}/ada-topic", events=["start"])
    add(ada, "own", f"http://{receiver.at}/hook?key=hush-hush", events="end,hang")
    job = cancelled(api, ada, notify=["me"])
    wait_for(lambda: [each["state"] for each in notices(ada, job)] == ["sent"] * 2, what="both notices")
    by_path = {path: (headers, body) for path, headers, body in receiver.got}
    assert len(receiver.got) == 2
    assert json.loads(by_path["/"][1])["topic"] == "ada-topic"
    headers, body = by_path["/hook?key=hush-hush"]
    told = json.loads(body)
    assert (told["event"], told["notice"], told["job"]["id"]) == ("job.cancelled", "end", job)
    assert headers["x-schedulearn-delivery"] == told["delivery"]
    assert {(each["event"], each["to"]) for each in notices(ada, job)} == {("start", "phone"), ("end", "own")}
    shown = ada.get("/api/v1/notify").json()["items"]
    assert [(each["name"], each["delivered"], each["last_error"]) for each in shown] == [
        ("own", 1, ""),
        ("phone", 1, ""),
    ]


def test_events_of_the_job_replace_those_of_the_address(
    api: Api, person: Person, receiver: Receiver, mailbox: Mailbox
) -> None:
    ada = person("ada")
    add(ada, "own", f"http://{receiver.at}/hook", events=["end"])
    job = submit(ada, notify=["own", "start@lab.org"], notify_on=["start"])
    api.wait(job, "running")
    wait_for(lambda: len(receiver.got) == 1 and mailbox.of("start@lab.org"), what="the start")
    ada.post(f"/api/v1/jobs/{job}/cancel")
    api.wait(job, "cancelled")
    other = cancelled(api, ada, notify=["own"])
    wait_for(lambda: len(receiver.got) == 2, what="the end of the other job, after which nothing of the first waits")
    assert json.loads(receiver.got[1][2])["job"]["id"] == other
    assert [each["event"] for each in notices(ada, job)] == ["start", "start"]


def test_an_address_for_every_job_needs_no_key_and_gets_only_the_account_s(
    api: Api, person: Person, receiver: Receiver
) -> None:
    ada, bob = person("ada"), person("bob")
    before = cancelled(api, ada)
    add(ada, "own", f"http://{receiver.at}/hook", events=["end"], every_job=True)
    cancelled(api, bob)
    after = cancelled(api, ada)
    wait_for(lambda: receiver.got, what="the notice")
    assert [json.loads(body)["job"]["id"] for _, _, body in receiver.got] == [after]
    assert notices(ada, before) == []


REFUSED: list[tuple[Any, str]] = [
    ("me", "has no address"),
    ("phone", "has no address 'phone'"),
    ("ada@elsewhere.org", "only to lab.org"),
    ("slack://T1/B2/C3-secret", "may hold a secret"),
    ("https://chat.example.org/secret", "may hold a secret"),
    ("a b@lab.org", "is neither"),
    ("ada@lab.org\r\nBcc: all@lab.org", "is neither"),
    (["ada@lab.org", ""], "is neither"),
    ([f"a{number}@lab.org" for number in range(6)], "5"),
    ([1], "string"),
]


def test_what_cannot_be_notified_is_refused_and_nothing_is_stored(api: Api, person: Person) -> None:
    ada = person("ada")
    before = ada.get("/api/v1/jobs").json()["items"]

    @each(REFUSED, "recipients")
    def check(recipients: Any, words: str) -> None:
        answer = ada.post("/api/v1/jobs", json={**FIVE_KEYS, "notify": recipients})
        assert answer.status_code == 422, answer.text
        assert words in answer.text
        assert "C3-secret" not in answer.text
        assert "example.org" not in answer.text

    assert ada.get("/api/v1/jobs").json()["items"] == before


ADDRESSES: list[tuple[str, str]] = [
    ("dbus://", "unknown scheme"),
    ("syslog://", "unknown scheme"),
    ("windows://", "unknown scheme"),
    ("file:///etc/passwd", "unknown scheme"),
    ("mailto://user:secret-word@lab.org", "unknown scheme"),
    ("smtp://x", "unknown scheme"),
    ("workflows://host:443/secret-word/sig?template=/etc/passwd", "'template'"),
    ("slack://secret-word/b/c?%61ttach=/etc/passwd", "'attach'"),
    ("slack://secret-word", "incomplete"),
    ("https://ada:secret-word@lab.org/", "user name or password"),
    ("http://[::1", "not a valid URL"),
    ("secret-word", "is neither"),
    ("ada@elsewhere.org", "only to lab.org"),
    ("ntfy://ntfy.sh/a b", "invalid characters"),
    (f"ntfy://ntfy.sh/{'a' * 1000}", "1000"),
]


def test_addresses_that_act_here_or_are_wrong_are_refused_without_being_repeated(api: Api, person: Person) -> None:
    ada = person("ada")

    @each(ADDRESSES, "address")
    def check(address: str, words: str) -> None:
        answer = ada.put("/api/v1/notify/chat", json={"address": address})
        assert answer.status_code == 422, answer.text
        assert words in answer.text
        assert "secret-word" not in answer.text

    assert ada.put("/api/v1/notify/me", json={"address": "ada@lab.org"}).status_code == 422
    assert ada.get("/api/v1/notify").json()["items"] == []


def test_secrets_of_addresses_are_nowhere_to_be_read(
    api: Api,
    person: Person,
    receiver: Receiver,
) -> None:
    ada = person("ada")
    receiver.status = 500
    made = add(ada, "own", f"http://{receiver.at}/hook/averylongsecretpath12345?key=hush-hush")
    chat = add(ada, "chat", f"ntfys://ada:hush-hush@{receiver.at}/averylongsecretpath12345")
    assert (made["address"], chat["address"]) == (f"http://{receiver.at}/hook/********?********", "ntfys://********")
    said = ada.post("/api/v1/notify/own/test").json(), ada.post("/api/v1/notify/chat/test").json()
    assert [each["ok"] for each in said] == [False, False]
    assert said[0]["error"] == "it answered 500"
    job = cancelled(api, ada, notify="me")
    wait_for(lambda: all(each["tries"] for each in notices(ada, job)), what="a try of each")
    paths = [
        "/api/v1/notify", "/api/v1/events?limit=500", f"/api/v1/jobs/{job}", f"/api/v1/jobs/{job}/notices",
        f"/api/v1/jobs/{job}/spec", "/api/v1/notify/own/test",
    ]  # fmt: skip
    answers = [(api.http.post if path.endswith("test") else api.http.get)(path) for path in paths]
    read = "".join([answer.text for answer in answers] + [json.dumps(said)])
    stored = b"".join(path.read_bytes() for path in api.directory.glob("schedulearn.db*"))
    for secret in ("hush-hush", "averylongsecretpath12345"):
        assert secret not in read
        assert secret.encode() not in stored


def test_an_outsider_a_viewer_and_another_user_reach_nothing_of_it(
    api: Api, person: Person, receiver: Receiver
) -> None:
    ada, bob, eve = person("ada"), person("bob"), person("eve", "viewer")
    add(ada, "own", f"http://{receiver.at}/hook")
    job = cancelled(api, ada, notify=["own", "ada@lab.org"])
    routes = [
        ("GET", "/api/v1/notify"), ("PUT", "/api/v1/notify/own"), ("DELETE", "/api/v1/notify/own"),
        ("POST", "/api/v1/notify/own/test"), ("GET", f"/api/v1/jobs/{job}/notices"),
    ]  # fmt: skip
    for method, path in routes:
        body = {"json": {"address": "eve@lab.org"}} if method == "PUT" else {}
        url = f"{api.http.base_url}{path}".replace("//api", "/api")
        assert httpx.request(method, url, **body).status_code == 401, path
        assert eve.request(method, path, **body).status_code == 403, path
    assert bob.get("/api/v1/notify").json()["items"] == []
    assert bob.post("/api/v1/notify/own/test").status_code == 404
    assert bob.delete("/api/v1/notify/own").status_code == 404
    assert bob.get(f"/api/v1/jobs/{job}/notices").status_code == 403
    for other in (bob, eve):
        assert other.get(f"/api/v1/jobs/{job}").json()["notify"] == []
        assert "lab.org" not in other.get(f"/api/v1/jobs/{job}/spec").text
        assert "lab.org" not in other.get("/api/v1/jobs").text
    assert ada.get(f"/api/v1/jobs/{job}").json()["notify"] == ["own", "ada@lab.org"]
    assert bob.post("/api/v1/jobs", json={**FIVE_KEYS, "notify": "own"}).status_code == 422


def test_a_trial_says_whether_it_arrived(api: Api, person: Person, mailbox: Mailbox, receiver: Receiver) -> None:
    ada = person("ada")
    add(ada, "mail", "trial@LAB.org")
    add(ada, "gone", "nobody@lab.org")
    add(ada, "closed", "http://127.0.0.1:1/")
    add(ada, "itself", f"http://{api.http.base_url.host}:{api.http.base_url.port}/api/v1/policy")
    arrived = ada.post("/api/v1/notify/mail/test").json()
    assert (arrived["ok"], len(mailbox.of("trial@lab.org"))) == (True, 1)
    refused = ada.post("/api/v1/notify/gone/test").json()
    assert (refused["ok"], "550 no such user" in refused["error"]) == (False, True)
    assert PASSWORD not in refused["error"]
    assert "refused" in ada.post("/api/v1/notify/closed/test").json()["error"]
    shown = {each["name"]: each for each in ada.get("/api/v1/notify").json()["items"]}
    assert "550 no such user" in shown["gone"]["last_error"]
    assert shown["mail"]["last_error"] == ""


def test_a_failing_recipient_is_reported_and_delays_no_other(
    api: Api, person: Person, mailbox: Mailbox, receiver: Receiver
) -> None:
    ada = person("ada")
    receiver.status = 503
    add(ada, "down", f"http://{receiver.at}/hook")
    add(ada, "mail", "both@lab.org")
    first = cancelled(api, ada, notify="me")
    second = cancelled(api, ada, notify="me")
    wait_for(lambda: len(mailbox.of("both@lab.org")) == 2, what="both by mail")
    wait_for(lambda: {each["to"]: each for each in notices(ada, first)}["down"]["tries"], what="a failed try")
    down = {each["to"]: each for each in notices(ada, first)}["down"]
    assert (down["state"], down["error"]) == ("waiting", "it answered 503")
    assert {each["to"]: each for each in notices(ada, second)}["down"]["tries"] == 0, "they are in order"
    shown = {each["name"]: each for each in ada.get("/api/v1/notify").json()["items"]}["down"]
    assert (shown["waiting"], shown["last_error"]) == (2, "it answered 503")
    assert ada.delete("/api/v1/notify/down").status_code == 204
    wait_for(lambda: all(each["state"] != "waiting" for each in notices(ada, second)), what="it to be given up")
    assert {each["to"]: each for each in notices(ada, second)}["down"]["error"] == "the address was removed"


def test_addresses_and_trials_are_bounded(api: Api, person: Person) -> None:
    ada = person("ada")
    for number in range(10):
        add(ada, f"mail-{number}", f"ada+{number}@lab.org")
    answer = ada.put("/api/v1/notify/mail-10", json={"address": "ada@lab.org"})
    assert (answer.status_code, "10 addresses" in answer.text) == (409, True)
    add(ada, "mail-3", "ada@lab.org")
    codes = [ada.post("/api/v1/notify/mail-3/test").status_code for _ in range(9)]
    assert codes == [200] * 8 + [429], "changes count too: each adds an event that stays"
    assert ada.put("/api/v1/notify/mail-3", json={"address": "ada@lab.org"}).status_code == 429


def test_addresses_go_with_their_account(api: Api, person: Person, receiver: Receiver, mailbox: Mailbox) -> None:
    ada = person("ada")
    add(ada, "own", f"http://{receiver.at}/hook", every_job=True)
    job = submit(ada, notify="me")
    name = api.wait(job, "running")["user"]
    assert api.http.delete(f"/api/v1/users/{name}", params={"jobs": "keep"}).status_code == 204
    again = person("again")
    add(again, "mail", "again@lab.org", every_job=True)
    api.http.post(f"/api/v1/jobs/{job}/cancel")
    api.wait(job, "cancelled")
    cancelled(api, again)
    wait_for(lambda: mailbox.of("again@lab.org"), what="a later notice")
    assert receiver.got == []
    assert api.http.get("/api/v1/notify").json()["items"] == []


def test_the_command_line_adds_tries_uses_and_removes(api: Api, mailbox: Mailbox, receiver: Receiver) -> None:
    token = token_for(api, f"ada-{next(_numbers)}", "user")

    def ask(*words: str, **options: Any) -> Any:
        return invoke(*words, url=str(api.http.base_url), SCHEDULEARN_TOKEN=token, **options)

    assert "you have no addresses" in ask("notify", "test", code=2).err
    assert "mail gets end, hang" in ask("notify", "add", "mail", "cli@lab.org").out
    added = ask("notify", "add", "own", "--on", "start", "--every-job", stdin=f"http://{receiver.at}/?key=hush\n")
    assert "own gets start of every job" in added.out
    listed = ask("notify", "ls").out
    assert f"http://{receiver.at}/?********" in listed
    assert "hush" not in listed
    receiver.status = 500
    tried = ask("notify", "test", code=1).out.splitlines()
    assert [
        line.startswith(words)
        for line, words in zip(tried, ["mail: accepted after", "own: not accepted: it an"], strict=True)
    ] == [True, True]
    receiver.status = 200
    assert ask("notify", "test", "own").out.startswith("own: accepted after")
    image = FIVE_KEYS["container_image"]
    made = ask("submit", "-d", "--image", image, "--notify", "me", "--notify-on", "start", "--", "true").out.split()
    job = next(word for word in made if len(word) == 10)
    api.wait(job, "running")
    wait_for(lambda: ask("notify", "log", job).out.count("sent") == 2, what="both notices")
    api.http.post(f"/api/v1/jobs/{job}/cancel")
    assert "no address 'phone'" in ask("submit", "-d", "--image", image, "--notify", "phone", "--", "x", code=1).err
    assert ask("notify", "rm", "own").out == "own is removed\n"
    assert "no address 'own'" in ask("notify", "rm", "own", code=1).err
