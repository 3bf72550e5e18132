"""backup and restore: a data folder as one file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from schedulearn.api.cli.common import Session, pass_session
from schedulearn.api.client.client import ClientError

_DATA = click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Data folder.  [default: .]")
_CONFIG = click.option(
    "--config", type=click.Path(path_type=Path, dir_okay=False), help="YAML file of settings, as of serve."
)


@click.command()
@click.argument("file")
@_DATA
@_CONFIG
@pass_session
def backup(session: Session, file: str, data: Path | None, config: Path | None) -> None:
    """Writes database, token, secrets, logs and code into FILE, `-` for stdout. The service may run meanwhile.

    Checkpoints and outputs stay on the hosts. Keep FILE private: it holds the token and the environment of jobs.

    \b
    Examples:
      schedulearn backup schedulearn.tar.gz --data /var/lib/schedulearn
      docker compose exec -T schedulearn schedulearn backup - > schedulearn.tar.gz
    """
    from schedulearn.scheduler.errors import SchedulearnError
    from schedulearn.scheduler.store.backup import write_backup

    try:
        folder = _folder(data, config)
        if file == "-":
            write_backup(folder, sys.stdout.buffer)
            return
        target = Path(file)
        partial = target.with_name(f".{target.name}.partial")
        try:
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
                write_backup(folder, out)
                out.flush()
                os.fsync(out.fileno())
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)
    except (SchedulearnError, OSError) as error:
        raise ClientError(str(error)) from error
    click.echo(f"{target}: {target.stat().st_size:,} bytes", err=True)


@click.command()
@click.argument("file")
@_DATA
@_CONFIG
@pass_session
def restore(session: Session, file: str, data: Path | None, config: Path | None) -> None:
    """Makes a data folder of a backup in FILE, `-` for stdin. The folder must have no database, and no service may run
    on it; nor may one run on the folder that the backup is of: both would use the same containers.

    \b
    Examples:
      schedulearn restore schedulearn.tar.gz --data /var/lib/schedulearn
      docker compose run --rm -T schedulearn restore - < schedulearn.tar.gz
    """
    from schedulearn.scheduler.cluster import lock_data_folder
    from schedulearn.scheduler.errors import SchedulearnError
    from schedulearn.scheduler.store.backup import read_backup

    try:
        folder = _folder(data, config)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock_data_folder(folder):
            if file == "-":
                read_backup(sys.stdin.buffer, folder)
            else:
                with Path(file).open("rb") as source:
                    read_backup(source, folder)
    except (SchedulearnError, OSError) as error:
        raise ClientError(str(error)) from error
    click.echo(f"Restored into {folder}. Start the service there.", err=True)


def _folder(data: Path | None, config: Path | None) -> Path:
    from schedulearn.api.settings import load_settings
    from schedulearn.scheduler.errors import InvalidError

    settings = load_settings(config, data=data)
    if settings.database_url is not None:
        raise InvalidError(
            "the database is not in the data folder but at `database_url`: back it up and restore it by its own tools, "
            "such as pg_dump, and copy the data folder; see docs/operations.md",
            field="database_url",
        )
    return settings.data
