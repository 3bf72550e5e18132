"""Child process that sends one message by HTTP. It knows nothing but the message, and ends in time.

Libraries of chats connect where an address of a user leads. An audit hook sees each of their connections, files and
programs, so no redirection, second name resolution or parameter of an address gets around the rules for webhooks.
"""

from __future__ import annotations

import json
import logging
import mimetypes
import os
import resource
import signal
import socket
import ssl
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from schedulearn.api.outgoing.targets import TargetRefused, WebhookTargets

NETWORKS = "notice_networks"
"""Setting with the private networks that users may choose. Those of webhooks are for operators."""
LIMIT_S = 20
"""Maximum seconds of a child."""
_MEMORY = 128 << 20
"""Maximum bytes of its data. Libraries read a whole answer, and there are up to twelve children at once."""
_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "pty.spawn")


class Confinement:
    """Audit hook that allows connections to allowed targets, and files of Python and of certificates."""

    def __init__(self, targets: WebhookTargets) -> None:
        self._targets = targets
        self._proxies = _addresses_of_proxies()
        self._folders = _readable_folders()
        self._files = {os.devnull, "/dev/urandom", *mimetypes.knownfiles}
        self.refusal: str = ""
        """Reason of the last refused connection."""

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "socket.connect":
            self._connect(args[1])
        elif event in ("socket.sendto", "socket.sendmsg") and args[1] is not None:
            raise PermissionError("messages without a connection are not allowed")
        elif event == "open":
            self._open(args[0], args[2])
        elif event in _PROGRAMS:
            raise PermissionError("other programs are not allowed")

    def _connect(self, address: object) -> None:
        if not isinstance(address, tuple):
            raise PermissionError("sockets of this machine are not allowed")
        host, port = str(address[0]), int(address[1])
        if (host, port) in self._proxies:
            return  # the proxy decides
        try:
            self._targets.check(host, port)
        except TargetRefused as error:
            self.refusal = str(error)
            raise
        except ValueError as error:
            raise PermissionError("only addresses are allowed, no names") from error

    def _open(self, path: object, flags: int) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return  # a descriptor that is open already
        name = os.path.realpath(os.fsdecode(path))
        if flags & (os.O_WRONLY | os.O_RDWR) and name != os.devnull:
            raise PermissionError("files can't be written here")
        if {name, os.fsdecode(path)}.isdisjoint(self._files) and not f"{name}/".startswith(self._folders):
            raise PermissionError("this file can't be read here")


def _addresses_of_proxies() -> set[tuple[str, int]]:
    found = set()
    for url in getproxies().values():
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            port = parts.port or (443 if parts.scheme == "https" else 80)
            for each in socket.getaddrinfo(parts.hostname or "", port, type=socket.SOCK_STREAM):
                found.add((str(each[4][0]), port))
        except (OSError, ValueError):
            continue  # it is not reachable, and then nothing is
    return found


def _readable_folders() -> tuple[str, ...]:
    own = Path(__file__).resolve().parents[2]
    places = [sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), str(own / "api"), str(own / "features")]
    places += [str(own / "scheduler"), str(own / "src"), "/usr/share/zoneinfo"]
    authorities = ssl.get_default_verify_paths()
    places += [each for each in (authorities.openssl_cafile, authorities.openssl_capath) if each]
    places += [os.environ[name] for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE") if name in os.environ]
    return tuple(f"{os.path.realpath(each)}/" for each in places if each and each != "/")


def main() -> None:
    question = json.load(sys.stdin)
    os.nice(10)
    signal.alarm(LIMIT_S + 5)  # the service may have been killed
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.disable(logging.CRITICAL)  # logs of libraries may hold the address
    targets = WebhookTargets(question["networks"], question["own_port"], NETWORKS)
    send = {"post": _post, "chat": _chat, "check": _check}[question["kind"]]
    sys.stdout.write(json.dumps(send(question, targets)))


def _post(question: Mapping[str, Any], targets: WebhookTargets) -> Mapping[str, Any]:
    from schedulearn.api.outgoing.http_post import post

    try:
        return {"status": post(targets, question["address"], question["body"].encode(), question["headers"])}
    except (OSError, ValueError) as error:
        return {"error": str(error) or type(error).__name__}


def _service(address: str) -> Any:
    """Return an Apprise for an address; None: the address is incomplete."""
    import apprise

    asset = apprise.AppriseAsset(
        app_id="Schedulearn", app_desc="Schedulearn", app_url="", async_mode=False, allow_templates=False,
        http_redirects=False, plugin_paths=[], secure_logging=True, language="en",
    )  # fmt: skip
    found = apprise.Apprise(asset=asset)
    return found if found.add(address) else None


def _check(question: Mapping[str, Any], _targets: WebhookTargets) -> Mapping[str, Any]:
    return {} if _service(question["address"]) is not None else {"error": "is incomplete for this service"}


def _chat(question: Mapping[str, Any], targets: WebhookTargets) -> Mapping[str, Any]:
    service = _service(question["address"])
    if service is None:
        return {"error": "the address is incomplete for this service"}
    import requests

    statuses: list[int] = []
    faults: list[str] = []
    send = requests.Session.send

    def seen(session: requests.Session, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        try:
            response = send(session, request, **options)
        except requests.Timeout:
            faults.append("it did not answer in time")
            raise
        except requests.RequestException:
            faults.append("there is no connection to it")
            raise
        statuses.append(response.status_code)
        return response

    requests.Session.send = seen  # type: ignore[method-assign,assignment]
    guard = Confinement(targets)
    sys.addaudithook(guard)
    try:
        accepted = service.notify(body=question["text"], title=question["title"], body_format="text")
    except Exception as error:
        accepted, faults = False, [*faults, f"the message could not be sent ({type(error).__name__})"]
    status = statuses[-1] if statuses else None
    if accepted:
        return {"status": status}
    answered = f"it answered {status}" if status is not None else "it did not accept the message"
    return {"status": status, "error": guard.refusal or (faults[-1] if faults else answered)}


if __name__ == "__main__":
    main()
