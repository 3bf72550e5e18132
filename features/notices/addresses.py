"""Addresses of accounts: which there may be, and how they are shown without their secrets."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from schedulearn.api.outgoing.urls import checked_url, shown_url
from schedulearn.scheduler.core.notices import mail_address
from schedulearn.scheduler.core.planning.command_masking import MASK

MAX_ADDRESS = 1000
CHATS = (
    "barks", "bark", "dingtalk", "discord", "feishu", "flock", "gchat", "gotify", "gotifys", "guilded", "hassio",
    "hassios", "humhub", "ifttt", "join", "kook", "lark", "line", "mastodon", "mastodons", "matrix", "matrixs", "mmost",
    "mmosts", "nctalk", "nctalks", "ntfy", "ntfys", "opsgenie", "pagerduty", "pbul", "pover", "prowl", "psafer",
    "psafers", "pushy", "revolt", "rocket", "rockets", "ryver", "signal", "signals", "slack", "synology", "synologys",
    "tgram", "threema", "twist", "webex", "wecombot", "workflow", "workflows", "wxteams", "zoom", "zulip",
)  # fmt: skip
"""Schemes of Apprise that are allowed: services that are reached by HTTP.

Others would act on the machine of the service: its desktop, D-Bus, system log, mail or files."""
_CHAT_HOSTS = ("hooks.slack.com", "discord.com", "discordapp.com", "chat.googleapis.com")
_TEAMS_HOSTS = (".logic.azure.com", ".api.powerplatform.com")
"""Hosts of https addresses that chats give out, which Apprise knows."""
_LOCAL = {"template", "attach", "attach-as", "config", "include"}
"""Parameters that may name files of the machine of the service."""


class AddressKind(StrEnum):
    MAIL = "mail"
    POST = "post"
    CHAT = "chat"


class Address(NamedTuple):
    kind: AddressKind
    text: str
    shown: str


def parse_address(text: str) -> Address:
    """Return the address that a text means.

    Raises ValueError, whose message does not repeat the text: it may hold a secret."""
    text = text.strip()
    if (mail := mail_address(text)) is not None:
        return Address(AddressKind.MAIL, mail, mail)
    if "://" not in text:
        raise ValueError("is neither an e-mail address nor a URL such as https://... or slack://...")
    if not text.isprintable() or " " in text or not text.isascii():
        raise ValueError("has invalid characters: write them as %XX")
    try:
        parts = urlsplit(text)
        host, scheme = (parts.hostname or "").lower(), parts.scheme
        found = {name.lower().lstrip("+-:") for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
    except ValueError as error:
        raise ValueError("is not a valid URL") from error
    if scheme in ("http", "https"):
        checked_url(text)
        if scheme == "https" and (host in _CHAT_HOSTS or host.endswith(_TEAMS_HOSTS)):
            return Address(AddressKind.CHAT, text, f"https://{host}/{MASK}")
        return Address(AddressKind.POST, text, shown_url(text))
    if scheme not in CHATS:
        raise ValueError(f"has an unknown scheme: use an e-mail address, http, https or one of {', '.join(CHATS)}")
    if local := sorted(found & _LOCAL):
        raise ValueError(f"has the parameter {local[0]!r}, which is not allowed here: leave it out")
    return Address(AddressKind.CHAT, text, f"{scheme}://{MASK}")
