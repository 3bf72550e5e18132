"""One try to deliver a notice: by e-mail here, by HTTP in a child process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from schedulearn.api.outgoing.targets import WebhookTargets
from schedulearn.features.notices.addresses import Address, AddressKind
from schedulearn.features.notices.child import LIMIT_S, NETWORKS
from schedulearn.features.notices.mail import MailServer
from schedulearn.scheduler.settings import ClusterSettings

_KEPT = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PATH", "TZ")
"""Variables that a child gets. It has none of the service's secrets."""


class NoticeMessage(NamedTuple):
    """Content of a notice. `id` is the same in each try."""

    id: str
    title: str
    text: str
    payload: Mapping[str, Any]


@dataclass(frozen=True)
class NoticeTry:
    """Outcome of one try. `error`: empty if the message was accepted."""

    error: str
    seconds: float


class Sender:
    """Sender of messages to any address. A try ends in a bounded time."""

    def __init__(self, mail: MailServer, networks: Sequence[str] = (), own_port: int = 0) -> None:
        self._mail = mail
        self._rules = {"networks": list(networks), "own_port": own_port}

    @classmethod
    def of(cls, settings: ClusterSettings, own_port: int) -> Sender:
        WebhookTargets(settings.notice_networks, own_port, NETWORKS)  # a fault in them is reported at the start
        return cls(MailServer.of(settings), settings.notice_networks, own_port)

    def send(self, address: Address, message: NoticeMessage) -> NoticeTry:
        began = time.monotonic()
        if address.kind is AddressKind.MAIL:
            said = self._mail.send(address.text, message.title, message.text, message.id)
        elif address.kind is AddressKind.POST:
            said = self._post(address, message)
        else:
            said = self._ask("chat", address, title=message.title, text=message.text)
        return NoticeTry(said, time.monotonic() - began)

    def check(self, address: Address) -> str:
        """Return what is wrong with an address, without sending anything; empty: nothing."""
        return self._ask("check", address) if address.kind is AddressKind.CHAT else ""

    def _post(self, address: Address, message: NoticeMessage) -> str:
        headers = {
            "content-type": "application/json",
            "user-agent": "Schedulearn",
            "x-schedulearn-event": str(message.payload["event"]),
            "x-schedulearn-delivery": message.id,
        }
        return self._ask("post", address, body=json.dumps(message.payload), headers=headers)

    def _ask(self, kind: str, address: Address, **more: object) -> str:
        question = json.dumps({"kind": kind, "address": address.text, **self._rules, **more})
        env = {name: value for name, value in os.environ.items() if name.upper() in _KEPT}
        try:
            asked = subprocess.run(
                [sys.executable, "-I", "-B", "-m", f"{__package__}.child"],
                input=question,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                env={**env, "HOME": os.devnull, "NETRC": os.devnull},
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"it did not answer within {LIMIT_S} s"
        except OSError as error:
            return f"no process could be started for it: {error.strerror}"
        try:
            answer = json.loads(asked.stdout)
        except ValueError:
            return "the message could not be sent: the process for it ended early"
        status = answer.get("status")
        if said := answer.get("error", ""):
            return str(said)[:500]
        return _refused(status) if kind == "post" and not 200 <= status < 300 else ""


def _refused(status: int) -> str:
    moved = 300 <= status < 400
    return f"it answered {status}" + (": redirections are not followed" if moved else "")
