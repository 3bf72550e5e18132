"""Commands `backup`, `restore`, `doctor` and `uninstall`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedulearn.api.cli.common import CliSession, Command, pass_session, print_json
from schedulearn.api.client.client import ClientError

if TYPE_CHECKING:
    from schedulearn.features.admin.uninstall import HostLeftovers
    from schedulearn.scheduler.runtimes.docker.leftovers import Leftovers

_DATA = click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Data folder.  [default: .]")
_CONFIG = click.option(
    "--config", type=click.Path(path_type=Path, dir_okay=False), help="YAML file of settings, as for `serve`."
)


@click.command()
@click.argument("file")
@_DATA
@_CONFIG
@pass_session
def backup(session: CliSession, file: str, data: Path | None, config: Path | None) -> None:
    """Back up database, token, secrets, logs and code to FILE.

    `-` writes to stdout. The service may be running. Checkpoints and outputs are not included: they stay on the hosts.
    Keep FILE private: it holds the token and the environment of jobs.

    \b
    Examples:
      schedulearn backup schedulearn.tar.gz --data /var/lib/schedulearn
      docker compose exec -T schedulearn schedulearn backup - > schedulearn.tar.gz
    """
    from schedulearn.features.admin.backup import write_backup
    from schedulearn.scheduler.errors import SchedulearnError

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
def restore(session: CliSession, file: str, data: Path | None, config: Path | None) -> None:
    """Restore a data folder from a backup in FILE.

    `-` reads from stdin. The folder must have no database, and no service may run on it. The service of the original
    folder must be stopped too: both would use the same containers.

    \b
    Examples:
      schedulearn restore schedulearn.tar.gz --data /var/lib/schedulearn
      docker compose run --rm -T schedulearn restore - < schedulearn.tar.gz
    """
    from schedulearn.features.admin.backup import read_backup
    from schedulearn.scheduler.cluster import lock_data_folder
    from schedulearn.scheduler.errors import SchedulearnError

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


@click.command(cls=Command)
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Data folder.  [default: .]")
@click.option(
    "--config", type=click.Path(path_type=Path, dir_okay=False), help="YAML file of settings, as for `serve`."
)
@click.option("--mend", is_flag=True, help="Fix problems that can be fixed. Stop the service first.")
@pass_session
def doctor(session: CliSession, data: Path | None, config: Path | None, mend: bool) -> int:
    """Check the data folder, the database and the hosts.

    It reports containers and volumes without a job, leases of ended tasks, invalid references, missing images, clock
    differences, files that others may read, a full disk, an old schema and damage. It asks the provider of sign-in
    whether it answers. Nothing is changed without --mend.
    The service may be running, but changes in progress can then look like problems.

    The exit code is 0 if no problem is left, else 1.

    \b
    Examples:
      schedulearn doctor --data /var/lib/schedulearn
      schedulearn doctor --mend --data /var/lib/schedulearn
    """
    from schedulearn.api.settings import load_settings
    from schedulearn.features.admin.doctor import Doctor, as_json, sign_in_findings
    from schedulearn.scheduler.errors import SchedulearnError

    try:
        settings = load_settings(config, data=data)
        if settings.database_url is not None:
            raise ClientError(
                "the database is not in the data folder but at `database_url`: doctor can't check it; a service on "
                "PostgreSQL checks its tables at start, and removes containers of no job as it goes"
            )
        with Doctor(settings.data) as doing:
            found = [*doing.find(), *sign_in_findings(settings)]
            results = doing.mend(found) if mend else {}
    except SchedulearnError as error:
        raise ClientError(str(error)) from error
    left = [finding for finding in found if results.get(finding) != "" and finding.check != "images"]
    if session.as_json:
        print_json({"findings": as_json(found, results), "left": len(left)})
        return 1 if left else 0
    for finding in found:
        problem = results.get(finding)
        advice = finding.advice or "Fixed by --mend."
        said = "Fixed." if problem == "" else f"Could not be fixed: {problem}" if problem else advice
        click.echo(f"{finding.check}: {finding.what}. {said}")
    click.echo(f"{len(left)} left to fix." if left else "Nothing is left to fix." if found else "Nothing is wrong.")
    return 1 if left else 0


_SHOWN = 8  # maximum names listed of each kind


@click.command()
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Data folder.  [default: .]")
@click.option(
    "--config", type=click.Path(path_type=Path, dir_okay=False), help="YAML file of settings, as for `serve`."
)
@click.option(
    "--everybody", is_flag=True, help="Remove the objects of all Schedulearn services on this machine's Docker Engine."
)
@click.option("--keep-images", is_flag=True, help="Keep the worker images, which take long to build.")
@click.option("--yes", is_flag=True, help="Don't ask for confirmation.")
@pass_session
def uninstall(
    session: CliSession, data: Path | None, config: Path | None, everybody: bool, keep_images: bool, yes: bool
) -> int:
    """Remove everything that the service created on its hosts.

    This includes job containers, even running ones; the probe; volumes with checkpoints, outputs and the SDK; and
    images named schedulearn/... It asks for confirmation. Stop the service first.

    The data folder stays. Images that were pulled for jobs and Docker's build cache stay too.

    \b
    Examples:
      schedulearn uninstall --data /var/lib/schedulearn
      docker compose run --rm schedulearn uninstall
    """
    from schedulearn.api.settings import load_settings
    from schedulearn.features.admin.uninstall import Uninstall
    from schedulearn.scheduler.errors import SchedulearnError

    try:
        settings = load_settings(config, data=data)
        with Uninstall(
            settings.data, settings.database_url, everybody=everybody, images=not keep_images
        ) as uninstalling:
            found = uninstalling.find()
            if not session.as_json:
                for host in found:
                    click.echo("\n".join(_lines(host)))
            problems = [f"{host.host}: {host.problem}" for host in found if host.problem]
            there = [host for host in found if host.found]
            if there and not yes:
                click.confirm("Remove all this for good?", abort=True, err=session.as_json)
            for host in there:
                problems += [f"{host.host}: {problem}" for problem in host.remove()]
    except SchedulearnError as error:
        raise ClientError(str(error)) from error
    if session.as_json:
        print_json({"removed": {host.host: _json(host.found) for host in there}, "problems": problems})
    else:
        click.echo(
            f"Removed. The data folder stays: {settings.data}" if there else "Nothing of this service was found."
        )
        for problem in problems:
            click.echo(f"Error: {problem}", err=True)
    return 1 if problems else 0


def _lines(host: HostLeftovers) -> list[str]:
    found = host.found
    lines = [f"{host.host} ({host.address}){': nothing' if not found and not host.problem else ''}"]
    if host.problem:
        lines.append(f"  it can't be checked: {host.problem}")
    running = f" ({found.running} running)" if found.running else ""
    for what, names, note in (
        ("container", found.containers, running),
        ("volume", found.volumes, ""),
        ("image", found.images, ""),
    ):
        if names:
            lines.append(f"  {len(names)} {what}{'s' if len(names) > 1 else ''}{note}: {_listed(names)}")
    if found.shared_with:
        lines.append(f"  images and the SDK stay: another Schedulearn uses this engine ({_listed(found.shared_with)})")
    return lines


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _json(found: Leftovers) -> dict[str, list[str]]:
    return {
        "containers": list(found.containers),
        "volumes": list(found.volumes),
        "images": list(found.images),
        "shared_with": list(found.shared_with),
    }
