"""Where webhooks may not lead: this machine, its networks, and the service. They tell nothing of what answers."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apis import Api, serve_api
from clusters import wait_for
from matrices import each

from schedulearn.api.outgoing.http_post import post
from schedulearn.api.outgoing.targets import TargetRefused, WebhookTargets
from schedulearn.scheduler.errors import InvalidError

PRIVATE = [
    "127.0.0.1", "127.8.8.8", "localhost", "0.0.0.0", "[::1]", "[::]", "10.0.0.1", "172.16.3.4", "192.168.1.1",
    "100.64.0.1", "169.254.1.1", "[fe80::1]", "[fd00::1]", "224.0.0.1", "[ff02::1]", "255.255.255.255",
    "[::ffff:127.0.0.1]", "[2002:7f00:1::]", "[64:ff9b::a00:1]", "2130706433", "0x7f.1", "127.1",
    "192.0.0.8", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.7", "203.0.113.7", "240.0.0.1",
    "[64:ff9b:1::808:808]", "[64:ff9b:1:7f00:0:1::]", "[fec0::1]", "[::127.0.0.1]", "[::10.0.0.1]",
    "[::ffff:0:10.0.0.1]", "[2001::1]", "[2001:0:808:808::1]", "[2001:2::1]", "[2001:10::1]", "[2001:20::1]",
    "[2001:db8::1]", "[3fff::1]", "[100::1]", "[5f00::1]", "[4000::1]", "[2606:4700::5efe:10.0.0.1]",
    "[2606:4700::200:5efe:192.168.0.1]",
]  # fmt: skip
METADATA = [
    "169.254.169.254", "[::ffff:169.254.169.254]", "[::169.254.169.254]", "[2002:a9fe:a9fe::]", "[fd00:ec2::254]",
    "168.63.129.16", "100.100.100.200", "[64:ff9b::a9fe:a9fe]",
]  # fmt: skip
INTERNET = [
    "192.0.43.8", "8.8.8.8", "100.128.0.1", "172.32.0.1", "[2606:4700::1111]", "[2001:4860:4860::8888]",
    "[64:ff9b::808:808]", "[::ffff:8.8.8.8]", "[2002:808:808::]",
]  # fmt: skip


class Listener:
    """Takes connections, answers each with the same bytes."""

    def __init__(self, answer: bytes) -> None:
        self.taken = 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self._answer = answer
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.taken += 1
            with connection, connection.makefile("rb") as request:
                lines = iter(request.readline, b"\r\n")
                sizes = [int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length:")]
                request.read(sum(sizes))  # what closes with something unread resets the connection
                connection.sendall(self._answer)


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener(b"SSH-2.0-OpenSSH_9.2 secret words of its own\r\n")
    yield made
    made.socket.shutdown(socket.SHUT_RDWR)
    made.socket.close()


@each(PRIVATE, "host")
def test_no_webhook_leads_off_the_internet(host: str) -> None:
    targets = WebhookTargets()
    with pytest.raises(TargetRefused, match="not on the internet"):
        targets.addresses(host, 80)
    with pytest.raises(OSError, match="webhook_networks"):
        post(targets, f"http://{host}:9/hook", b"{}", {})


@pytest.mark.parametrize("version", ["all global", "all private"])
def test_the_tables_are_our_own(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions of Python differ in what they call global: none of that counts."""
    for kind in (ipaddress.IPv4Address, ipaddress.IPv6Address):
        for name in ("is_global", "is_private", "is_multicast", "is_reserved", "is_link_local", "is_loopback"):
            value = (name == "is_global") == (version == "all global")
            monkeypatch.setattr(kind, name, property(lambda self, value=value: value))
    for host in INTERNET:
        assert WebhookTargets().addresses(host, 443)
    for host in PRIVATE:
        with pytest.raises(TargetRefused):
            WebhookTargets().addresses(host, 443)


@pytest.mark.parametrize("host", METADATA)
def test_no_setting_opens_the_metadata_service_of_a_cloud(host: str) -> None:
    with pytest.raises(TargetRefused, match="metadata service"):
        WebhookTargets(["0.0.0.0/0", "::/0"]).addresses(host, 80)


def test_an_address_in_another_form_is_allowed_where_its_own_is() -> None:
    allowed = WebhookTargets(["10.1.0.0/16"])
    assert allowed.addresses("[64:ff9b::a01:203]", 443)
    with pytest.raises(TargetRefused):
        allowed.addresses("[64:ff9b::a02:203]", 443)


def test_an_address_on_the_internet_is_free_and_a_network_of_the_settings_too() -> None:
    for host in INTERNET:
        assert WebhookTargets().addresses(host, 443)
    assert WebhookTargets(["10.1.0.0/16"]).addresses("10.1.2.3", 443) == ["10.1.2.3"]
    with pytest.raises(TargetRefused):
        WebhookTargets(["10.1.0.0/16"]).addresses("10.2.2.3", 443)


def test_a_network_that_is_none_is_told_at_the_start() -> None:
    with pytest.raises(InvalidError, match=r"webhook_networks: '10\.0\.0/99'"):
        WebhookTargets(["10.0.0/99"])


def test_a_name_is_refused_for_what_it_resolves_to_and_that_is_connected_to(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that leads elsewhere at each look."""
    answers = iter(["192.0.43.8", "127.0.0.1"])
    real = socket.getaddrinfo

    def resolve(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        return real(next(answers) if host == "moves.example" else host, port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    targets = WebhookTargets()
    assert targets.addresses("moves.example", listener.port) == ["192.0.43.8"]
    with pytest.raises(OSError, match=r"it leads to 127\.0\.0\.1"):
        post(targets, f"http://moves.example:{listener.port}/", b"{}", {})
    assert listener.taken == 0


def test_the_service_itself_is_never_reached_whatever_the_settings_say(listener: Listener) -> None:
    targets = WebhookTargets(["0.0.0.0/0", "::/0"], own_port=listener.port)
    for host in ("127.0.0.1", "localhost", "127.9.9.9", "0.0.0.0", "[::ffff:127.0.0.1]"):
        with pytest.raises(OSError, match="this service itself"):
            post(targets, f"http://{host}:{listener.port}/", b"{}", {})
    assert listener.taken == 0


def test_nothing_of_an_answer_is_told(tmp_path: Path, listener: Listener) -> None:
    with serve_api(tmp_path, webhook_networks=["127.0.0.0/8"]) as api:
        told = deliver(api, f"http://127.0.0.1:{listener.port}/")
    assert listener.taken == 1
    assert told["error"] == "the server does not speak HTTP"
    assert told["status"] is None


def test_a_service_refuses_by_itself(tmp_path: Path, listener: Listener) -> None:
    with serve_api(tmp_path) as api:
        told = deliver(api, f"http://127.0.0.1:{listener.port}/")
        assert "webhook_networks" in told["error"]
        wait_for(lambda: api.http.get("/api/v1/webhooks").json()["items"][0]["last"], what="the note of the try")
    assert listener.taken == 0


def deliver(api: Api, url: str) -> dict[str, Any]:
    made = api.http.post("/api/v1/webhooks", json={"url": url}).json()
    found: dict[str, Any] = api.http.post(f"/api/v1/webhooks/{made['id']}/test").json()
    assert found["ok"] is False
    return found
