"""The code of a job from the command line: a folder is sent, a digest or a repository is named."""

from __future__ import annotations

import re
from pathlib import Path

import click

from schedulearn.api.cli.common import Session, clean
from schedulearn.api.client.client import Json

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TOLD = 5


def code_of(session: Session, where: str) -> Json:
    """What to give as the key `code`. Sends a folder, unless the service has it, and says so on stderr."""
    if _DIGEST.fullmatch(where):
        return {"digest": where}
    if where.startswith(("https://", "http://")):
        scheme, _, rest = where.partition("://")
        server, slash, path = rest.partition("/")
        path, at, ref = path.partition("@")  # a user before the server is refused by the service
        return {"git": f"{scheme}://{server}{slash}{path}", **({"ref": ref} if at else {})}
    return _send(session, Path(where))


def _send(session: Session, folder: Path) -> Json:
    from schedulearn.api.client.code import packed_code
    from schedulearn.scheduler.code.archive import show_bytes

    limits = session.client.code_limits()
    with packed_code(folder, limits["max_bytes"], limits["max_files"]) as code:
        digest = code.written.digest
        for left in code.left_out[:_TOLD]:
            _say(f"left out {left}")
        if len(code.left_out) > _TOLD:
            _say(f"left out {len(code.left_out) - _TOLD} more of that kind")
        what = f"{code.files} files, {show_bytes(code.written.bytes)}, {digest[:19]}"
        if session.client.has_code(digest):
            _say(f"the service has this code: {what}")
        else:
            _say(f"sending {folder.resolve()}: {what}")
            session.client.send_code(code.file, digest)
        return {"digest": digest, "commit": code.commit, "dirty": code.dirty}


def _say(sentence: str) -> None:
    click.secho(f"schedulearn: {clean(sentence)}", err=True, dim=True)
