"""uninstall: removes what a service that is stopped has left on its hosts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedulearn.api.cli.common import Session, pass_session, print_json
from schedulearn.api.client.client import ClientError

if TYPE_CHECKING:
    from schedulearn.scheduler.runtimes.docker.leftovers import Leftovers
    from schedulearn.scheduler.uninstall import HostLeftovers

_SHOWN = 8  # names of a kind


@click.command()
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Data folder.  [default: .]")
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help="YAML file of settings, as of serve.")
@click.option(
    "--everybody", is_flag=True, help="Remove what any Schedulearn service has left on this machine's Docker Engine."
)
@click.option("--keep-images", is_flag=True, help="Leave the worker images, which take long to build.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_session
def uninstall(
    session: Session, data: Path | None, config: Path | None, everybody: bool, keep_images: bool, yes: bool
) -> int:
    """Removes what the service has left on all of its hosts: job containers, also those that run, the probe, volumes
    with checkpoints, outputs and the SDK, images named schedulearn/... Asks before. Stop the service first.

    The data folder stays, and so do images that were pulled for jobs, and Docker's build cache.

    \b
    Examples:
      schedulearn uninstall --data /var/lib/schedulearn
      docker compose run --rm schedulearn uninstall
    """
    from schedulearn.api.settings import load_settings
    from schedulearn.scheduler.errors import SchedulearnError
    from schedulearn.scheduler.uninstall import Uninstall

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
        click.echo(f"Removed. The data folder stays: {settings.data}" if there else "Nothing of this service is left.")
        for problem in problems:
            click.echo(f"Error: {problem}", err=True)
    return 1 if problems else 0


def _lines(host: HostLeftovers) -> list[str]:
    found = host.found
    lines = [f"{host.host} ({host.address}){': nothing' if not found and not host.problem else ''}"]
    if host.problem:
        lines.append(f"  it can't be looked at: {host.problem}")
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
