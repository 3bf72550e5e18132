"""Message of a ready service: URL, login, and what runs jobs."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedulearn.api.settings import Settings
from schedulearn.scheduler.store.people.run_as import own_account

if TYPE_CHECKING:
    from schedulearn.api.tls.certificates import Certificate


@dataclass(frozen=True)
class Announcement:
    settings: Settings
    made_token: bool
    """Whether the service made its token itself."""
    login: str | None = None
    """Secret of a link that opens one session of an admin.

    None: this is not the first start with a token of the service's own."""
    certificate: Certificate | None = None
    """None: the service speaks plain HTTP."""

    def as_json(self, runtime: str, simulated_gpus: int = 0) -> str:
        url = self._url()
        told = {"url": url, "page": f"{url}/ui/", "data": str(self.settings.data), "pid": os.getpid()}
        if self.certificate is not None:
            told["certificate"] = self.certificate.fingerprint
        return json.dumps({**told, "runtime": runtime, "simulated_gpus": simulated_gpus, "account": own_account()})

    def lines(self, machine: str, runtime: str, simulated_gpus: int = 0, unknown: str = "") -> list[str]:
        """Return the message. `machine`: its host name; `unknown`: why its GPUs are not known."""
        settings = self.settings
        url, told = self._url(), settings.public_url is not None
        everywhere = settings.everywhere
        also = f" (and at every other address of {machine})" if everywhere and not told else ""
        pretended = f" with {simulated_gpus} SIMULATED GPU{'s' * (simulated_gpus > 1)}, no real ones"
        pretended = pretended if simulated_gpus else ""
        lines = [f"Schedulearn is ready: {url}/ui/{also}{pretended}"]
        own = self.certificate if self.certificate is not None and self.certificate.own else None
        if own is not None:
            lines.append(f"Its certificate is its own, so browsers ask whether to trust it: {own.fingerprint}")
        if self.made_token:
            path = settings.data / "token"
            show = settings.token_command or f"cat {path}"
            place = f"`{show}` shows it" if settings.token_command else f"it is in {path}"
            reach = self._of(machine) if everywhere and not told and not self._named else url
            trust = f" SCHEDULEARN_CA={own.fingerprint}" if own is not None else ""
            lines += [
                f"Clients need its token: {place}, and the page asks for it. For the command line:",
                f"  export SCHEDULEARN_URL={reach}{trust} SCHEDULEARN_TOKEN=$({show})",
            ]
            if self.login is not None:
                lines.append(f"Log in as admin, once and within an hour: {reach}/ui/#login={self.login}")
        no_gpus = [f"No GPU of this machine can be used: {unknown}. Jobs wait until it can."] if unknown else []
        return [*lines, *no_gpus, _what_runs_jobs(settings, runtime)]

    def _url(self) -> str:
        """Return the URL that users open: the setting `public_url`, or an address of this machine."""
        settings = self.settings
        if settings.public_url is not None:
            return settings.public_url.rstrip("/")
        if self._named is not None:
            return self._of(self._named)
        host = settings.host
        return self._of("127.0.0.1" if settings.everywhere else f"[{host}]" if ":" in host else host)

    def _of(self, host: str) -> str:
        return f"{'http' if self.certificate is None else 'https'}://{host}:{self.settings.port}"

    @property
    def _named(self) -> str | None:
        """Name of this machine in a certificate from an authority; None without one.

        Clients would not trust another name or address. On loopback it is None: the service answers to no name."""
        if self.certificate is None or self.certificate.own or self.settings.loopback:
            return None
        return self.certificate.name


def _what_runs_jobs(settings: Settings, runtime: str) -> str:
    if runtime != "process":
        return "Jobs run in containers of Docker Engine."
    why = "" if settings.runtime == "process" else "No Docker Engine answers. "
    who = own_account()
    warning = " WARNING: every user who may submit a job is root on this machine." if os.geteuid() == 0 else ""
    return f"{why}Jobs run as local processes of {who}, and may do what {who} may.{warning}"
