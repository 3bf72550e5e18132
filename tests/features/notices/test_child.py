"""The process that sends by HTTP: where it may connect, and what it may touch."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import apprise
import pytest
from matrices import each

from schedulearn.features.notices import delivery
from schedulearn.features.notices.addresses import CHATS, parse_address
from schedulearn.features.notices.delivery import NoticeMessage, Sender
from schedulearn.features.notices.mail import MailServer
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.settings import ClusterSettings

NO_MAIL = MailServer("", 25, "off", "schedulearn@lab.org")
MESSAGE = NoticeMessage("notice-1", "title", "text", {"event": "test"})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of its plugins that are not allowed here
def test_each_scheme_is_one_of_apprise_that_works_here() -> None:
    known = apprise.manager_plugins.NotificationManager()
    assert [scheme for scheme in CHATS if scheme not in known or not known[scheme].enabled] == []


TARGETS = [
    ("ntfy://127.0.0.1:1/topic", "not on the internet"),
    ("ntfy://localhost:1/topic", "not on the internet"),
    ("ntfys://[::1]:1/topic", "not on the internet"),
    ("gotify://10.0.0.1/token-of-it", "not on the internet"),
    ("http://169.254.169.254/latest", "metadata"),
    ("mmost://169.254.169.254/3ccdd113474722377935511fc85d3dd4", "metadata"),
]


def test_no_message_goes_into_the_own_network() -> None:
    sender = Sender(NO_MAIL)

    @each(TARGETS, "address")
    def check(address: str, words: str) -> None:
        tried = sender.send(parse_address(address), MESSAGE)
        assert words in tried.error


def test_networks_of_webhooks_are_not_those_of_users() -> None:
    """Only admins make webhooks, so an operator may have allowed them more."""
    settings = ClusterSettings(webhook_networks=["127.0.0.0/8"])
    tried = Sender.of(settings, 0).send(parse_address("http://127.0.0.1:1/admin"), MESSAGE)
    assert "notice_networks" in tried.error
    with pytest.raises(InvalidError, match="notice_networks: '127/99'"):
        Sender.of(ClusterSettings(notice_networks=["127/99"]), 0)


REFUSED = [
    ("socket.create_connection(('127.0.0.1', 1))", "not on the internet"),
    ("socket.socket().connect(('localhost', 80))", "only addresses are allowed"),
    ("socket.socket(socket.AF_UNIX).connect('/run/docker.sock')", "sockets of this machine"),
    ("socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 514))", "without a connection"),
    ("open('/etc/passwd')", "can't be read"),
    ("open('/proc/self/environ')", "can't be read"),
    ("open(sys.prefix + '-beside/it')", "can't be read"),
    ("os.open('/etc/passwd', os.O_RDONLY)", "can't be read"),
    ("open('written', 'w')", "can't be written"),
    ("subprocess.run(['true'])", "other programs"),
    ("os.system('true')", "other programs"),
    ("os.fork()", "other programs"),
]


def test_it_touches_nothing_of_the_machine(tmp_path: Path) -> None:
    """Whatever a library of a chat does: the hook is called by the interpreter itself."""
    lines = [line for line, _ in REFUSED]
    program = f"""
        import os, socket, subprocess, sys
        from schedulearn.api.outgoing.targets import WebhookTargets
        from schedulearn.features.notices.child import Confinement
        sys.addaudithook(Confinement(WebhookTargets()))
        for line in {lines!r}:
            try:
                exec(line)
                print("allowed")
            except OSError as error:
                print(error)
        import colorsys  # modules of Python are still found
        print("done")
    """
    shown = subprocess.run(
        [sys.executable, "-B", "-W", "ignore", "-c", textwrap.dedent(program)], cwd=tmp_path, capture_output=True,
        text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    assert [(line, said) for (line, words), said in zip(REFUSED, shown, strict=False) if words not in said] == []
    assert shown[-1] == "done"
    assert not (tmp_path / "written").exists()


def test_it_gets_no_secret_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, str] = {}

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        env = options["env"]
        assert isinstance(env, dict)
        seen.update(env)
        assert not any("hush" in word for word in command)
        return subprocess.CompletedProcess(command, 0, stdout="{}")

    monkeypatch.setenv("SCHEDULEARN_SMTP_PASSWORD", "hush")
    monkeypatch.setattr(delivery.subprocess, "run", run)
    Sender(NO_MAIL).send(parse_address("ntfy://ntfy.sh/hush-topic"), MESSAGE)
    assert "PATH" in seen
    assert "hush" not in "".join(seen.values())


def test_it_ends_in_time_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "LIMIT_S", 0.01)
    tried = Sender(NO_MAIL).send(parse_address("ntfy://ntfy.sh/topic"), MESSAGE)
    assert tried.error == "it did not answer within 0.01 s"


def test_an_endless_answer_takes_little_memory() -> None:
    """Each user may name an address that answers so."""
    sent = 0

    class Endless(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            nonlocal sent
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while sent < 400:
                    self.wfile.write(b"x" * (1 << 20))
                    sent += 1

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = parse_address(f"ntfy://127.0.0.1:{server.server_port}/topic")
        tried = Sender(NO_MAIL, ["127.0.0.0/8"]).send(address, MESSAGE)
        server.shutdown()
    assert tried.error
    assert sent < 200, "MiB that it read"
