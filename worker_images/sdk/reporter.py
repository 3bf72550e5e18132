"""Thread that sends reports to the service.

Training never waits for the service, and does not notice when it is unreachable.
"""

from __future__ import annotations

import base64
import json
import sys
import threading
import urllib.error
import urllib.request
from typing import Any, Callable

from schedulearn.worker.environment import Environment

TIMEOUT_S = 5.0
FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 60.0
GOODBYE_S = 2.0  # for the last report, when the process ends


class Reporter:
    """Sender of reports, in a thread of its own.

    It calls `collect` for the body of each report, and `failed` if the report could not be delivered. It sends at most
    one report per interval, and the first at once: the response brings what the service already knows.
    """

    def __init__(self, env: Environment, collect: Callable[[], dict[str, Any]], failed: Callable[[], None]) -> None:
        self._env = env
        self._collect = collect
        self._failed = failed
        self.answer: dict[str, Any] | None = None
        """Newest response; a different object for each report."""
        self._refused = False
        self._rest_s = 0.0
        """Seconds for which the service wants no reports, by its `Retry-After`."""
        self._closing = threading.Event()
        self._opener = opener_for(env)
        self._thread = threading.Thread(target=self._run, name="schedulearn-reports", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Send what is left, in at most GOODBYE_S. Idempotent."""
        if not self._closing.is_set():
            self._closing.set()
            self._thread.join(timeout=GOODBYE_S)

    def _run(self) -> None:
        retry = FIRST_RETRY_S
        while not self._refused:
            last = self._closing.is_set()
            delivered = self._send(GOODBYE_S if last else TIMEOUT_S)
            if last:
                return
            retry = FIRST_RETRY_S if delivered else min(2 * retry, LONGEST_RETRY_S)
            rest, self._rest_s = self._rest_s, 0.0
            self._closing.wait(max(self._env.report_interval, 0 if delivered else retry, rest))

    def _send(self, timeout: float) -> bool:
        assert self._env.report_url is not None
        headers = {"Authorization": "Bearer " + self._env.token, "Content-Type": "application/json"}
        body = json.dumps(self._collect()).encode()
        request = urllib.request.Request(self._env.report_url, data=body, headers=headers)  # noqa: S310
        try:
            with self._opener.open(request, timeout=timeout) as response:
                self.answer = json.loads(response.read())
            return True
        except urllib.error.HTTPError as error:
            words = error.read(2000).decode(errors="replace")
            if error.code in (401, 404, 409):  # another service, or our job has ended: this won't change
                self._refused = True
            elif error.code == 429:
                self._rest_s = _seconds(error.headers.get("Retry-After"))
            elif error.code == 422:
                print("schedulearn: the service rejected this report: " + words, file=sys.stderr)  # noqa: T201
                return True  # don't send it again
        except (OSError, ValueError):
            pass
        self._failed()
        return False


def opener_for(env: Environment) -> urllib.request.OpenerDirector:
    """Return the opener of URLs for the service.

    It ignores proxies in the environment: the service is near, and its token is not for others."""
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if env.report_certificate is not None:
        import ssl  # an image need not have it

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False  # at any address: nobody else has the key of this one certificate
        context.load_verify_locations(cadata=base64.b64decode(env.report_certificate))
        handlers.append(urllib.request.HTTPSHandler(context=context))
    return urllib.request.build_opener(*handlers)


def _seconds(text: str | None) -> float:
    try:
        return min(float(text or 0), LONGEST_RETRY_S)
    except ValueError:
        return 0.0  # it may also be a date
