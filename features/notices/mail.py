"""Notices by e-mail, through the operator's mail server."""

from __future__ import annotations

import smtplib
import ssl
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import formatdate
from pathlib import Path

from schedulearn.scheduler.core.planning.command_masking import MASK, hide_in_text
from schedulearn.scheduler.settings import ClusterSettings

TIMEOUT_S = 15.0
"""Maximum seconds for each answer of the mail server."""
_SHOWN = 200
_LONGEST_SUBJECT = 200


@dataclass(frozen=True)
class MailServer:
    host: str
    port: int
    tls: str
    sender: str
    user: str = ""
    password: str = field(default="", repr=False)
    password_file: Path | None = None

    @classmethod
    def of(cls, settings: ClusterSettings) -> MailServer:
        return cls(
            settings.smtp_host,
            settings.smtp_port,
            settings.smtp_tls,
            settings.smtp_from,
            settings.smtp_user,
            settings.smtp_password.get_secret_value(),
            settings.smtp_password_file,
        )

    def send(self, to: str, subject: str, text: str, message_id: str) -> str:
        """Send a message. Return why it was not accepted; empty: it was."""
        if not self.host:
            return "this service sends no e-mail any more (setting smtp_host)"
        message = EmailMessage()
        message["From"], message["To"] = self.sender, to
        message["Subject"] = " ".join(subject.split())[:_LONGEST_SUBJECT]
        message["Date"] = formatdate(localtime=False)
        message["Message-ID"] = f"<{message_id}@{self.sender.rpartition('@')[2]}>"
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(text)
        secret = ""
        try:
            secret = self._password()
        except (OSError, ValueError):
            return "the file with the password can't be read: the operator must check smtp_password_file"
        try:
            self._deliver(message, to, secret)
        except smtplib.SMTPRecipientsRefused as error:
            code, said = error.recipients.get(to, (550, b""))
            return _answered(code, said, secret)
        except smtplib.SMTPResponseException as error:
            return _answered(error.smtp_code, error.smtp_error, secret)
        except (OSError, smtplib.SMTPException, ValueError) as error:
            return f"the mail server can't be used: {_without(str(error) or type(error).__name__, secret)}"
        return ""

    def _deliver(self, message: EmailMessage, to: str, secret: str) -> None:
        context = ssl.create_default_context()
        server = (
            smtplib.SMTP_SSL(self.host, self.port, timeout=TIMEOUT_S, context=context)
            if self.tls == "tls"
            else smtplib.SMTP(self.host, self.port, timeout=TIMEOUT_S)
        )
        with server:
            if self.tls == "starttls":
                server.starttls(context=context)
            if self.user:
                server.login(self.user, secret)
            server.send_message(message, to_addrs=[to])

    def _password(self) -> str:
        """Return the password. Raises OSError or ValueError if its file can't be read."""
        if self.password or self.password_file is None:
            return self.password
        return self.password_file.read_text(encoding="utf-8").strip()


def _answered(code: int, said: bytes | str, secret: str) -> str:
    words = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    return f"the mail server answered {code} {_without(words, secret)}".strip()


def _without(words: str, secret: str) -> str:
    shown = hide_in_text(" ".join(words.split()))[:_SHOWN]
    return shown.replace(secret, MASK) if secret else shown
