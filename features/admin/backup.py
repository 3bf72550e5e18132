"""Backup of a data folder as one tar file.

It holds the database, the token, the key of secrets, the service's own certificate, the logs and the code of jobs. The
service may run meanwhile. Checkpoints stay on the hosts; copies of them, local tasks and the SDK are left out.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path, PurePosixPath
from typing import IO

from schedulearn.scheduler.errors import StoreError

DATABASE, TOKEN, SECRETS_KEY, LOGS, CODE = "schedulearn.db", "token", "secrets.key", "logs", "code"
TLS = "tls"
CERTIFICATE = (f"{TLS}/cert.pem", f"{TLS}/key.pem")
"""The service's own certificate, which clients trust. They also trust a restored service that keeps it."""
_ARCHIVE = re.compile(rf"{CODE}/[0-9a-f]{{64}}\.tar")


def write_backup(data_dir: Path, out: IO[bytes]) -> None:
    """Write a backup of a data folder. Raises StoreError without a database in it."""
    if not (data_dir / DATABASE).exists():
        raise StoreError(f"there is no {DATABASE} in {data_dir}: name the data folder by --data")
    with (
        tempfile.TemporaryDirectory(prefix=".backup-", dir=data_dir) as folder,
        tarfile.open(fileobj=out, mode="w|gz", format=tarfile.PAX_FORMAT) as tar,
    ):
        snapshot = Path(folder) / DATABASE
        try:
            with closing(sqlite3.connect(f"{(data_dir / DATABASE).as_uri()}?mode=ro", uri=True, timeout=30)) as source:
                source.execute("VACUUM INTO ?", (str(snapshot),))  # consistent, also while the service writes
        except sqlite3.Error as error:
            raise StoreError(f"the database in {data_dir} can't be copied: {error}") from error
        tar.add(snapshot, DATABASE, filter=_private)
        for name, content in _files(data_dir):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(_private(entry), io.BytesIO(content))
        for archive in sorted((data_dir / CODE).glob("*.tar")):
            with suppress(FileNotFoundError):  # removed meanwhile: no unfinished job needs it
                tar.add(archive, f"{CODE}/{archive.name}", filter=_private)


def _private(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mode, entry.uid, entry.gid, entry.uname, entry.gname = 0o600, 0, 0, "", ""
    return entry


def _files(data_dir: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of the token, the key of secrets, the certificate's files and the logs.

    Logs may grow or vanish meanwhile: each has its content at the time of reading."""
    single = (data_dir / name for name in (TOKEN, SECRETS_KEY, *CERTIFICATE))
    for path in [*single, *sorted((data_dir / LOGS).rglob("*"))]:
        try:
            if path.is_file() and not path.is_symlink():
                yield str(path.relative_to(data_dir)), path.read_bytes()
        except FileNotFoundError:
            continue


def read_backup(source: IO[bytes], data_dir: Path) -> None:
    """Restore a backup into the data folder, whose lock the caller holds.

    All or nothing: the database is moved into place last. Raises StoreError for a folder that has a database, and for
    a file that is not a backup."""
    if found := sorted(path.name for path in data_dir.glob(f"{DATABASE}*")):
        raise StoreError(f"{data_dir} has {', '.join(found)} already: move them elsewhere first")
    with tempfile.TemporaryDirectory(prefix=".restore-", dir=data_dir) as name:
        folder = Path(name)
        try:
            with tarfile.open(fileobj=source, mode="r|gz") as tar:
                for member in tar:
                    _unpack(tar, member, folder)
        except (tarfile.TarError, OSError, EOFError) as error:
            raise StoreError(f"not a Schedulearn backup, or truncated: {error}") from error
        _check(folder / DATABASE)
        for path in (folder / name for name in (LOGS, CODE, TLS, TOKEN, SECRETS_KEY, DATABASE)):
            target = data_dir / path.name
            if not path.exists():
                continue
            if target.is_dir():
                shutil.rmtree(target)
            os.replace(path, target)


def _unpack(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Extract a member of a backup. Raises StoreError for any other member: the file is not trusted."""
    path = PurePosixPath(member.name)
    single = member.name in (DATABASE, TOKEN, SECRETS_KEY, *CERTIFICATE) or _ARCHIVE.fullmatch(member.name) is not None
    known = single or (path.parts[:1] == (LOGS,) and ".." not in path.parts)
    content = tar.extractfile(member) if known and member.isfile() else None
    if content is None:
        raise StoreError(f"not a Schedulearn backup: it contains {member.name!r}")
    (folder / path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with content, os.fdopen(os.open(folder / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
        shutil.copyfileobj(content, target)


def _check(database: Path) -> None:
    if not database.exists():
        raise StoreError("not a Schedulearn backup: it contains no database")
    try:
        with closing(sqlite3.connect(database)) as connection:
            [found] = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        found = str(error)
    if found != "ok":
        raise StoreError(f"the database in this backup is damaged: {found}")
