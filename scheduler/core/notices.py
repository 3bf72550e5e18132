"""Recipients and events of notices, as jobs, accounts and Slurm scripts name them. Pure."""

from __future__ import annotations

import re
from typing import Literal

ME = "me"
"""All addresses of the job's account."""
MAX_RECIPIENTS = 5
MAX_MAIL = 254
NoticeEvent = Literal["end", "failure", "hang", "start", "preemption"]
MEANINGS: dict[NoticeEvent, str] = {
    "end": "the job has succeeded, failed, run into its time limit or been cancelled",
    "failure": "the job has failed for good, or run into its time limit",
    "hang": "the job seems to hang, or does not use its GPUs",
    "start": "the job runs for the first time",
    "preemption": "the job lost its GPUs, and waits to continue or to start again; or will lose them to maintenance",
}
USUAL: list[NoticeEvent] = ["end", "hang"]
"""Events of recipients that select none."""
_CHANNEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LOCAL = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_MAIL = re.compile(rf"(?P<local>{_LOCAL})@(?P<domain>{_LABEL}(?:\.{_LABEL})*)")


def is_channel(text: str) -> bool:
    """Return whether a text may name an address of an account."""
    return text != ME and _CHANNEL.fullmatch(text) is not None


def mail_address(text: str) -> str | None:
    """Return the e-mail address that a text means, with its domain in lower case; None: it means none."""
    text = text.removeprefix("mailto:")
    found = _MAIL.fullmatch(text) if len(text) <= MAX_MAIL else None
    return None if found is None else f"{found['local']}@{found['domain'].lower()}"
