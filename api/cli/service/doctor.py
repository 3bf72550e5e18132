"""doctor: what is wrong with a service's data folder and hosts, and its mending."""

from __future__ import annotations

from pathlib import Path

import click

from schedulearn.api.cli.common import Command, Session, pass_session, print_json
from schedulearn.api.client.client import ClientError


@click.command(cls=Command)
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Data folder.  [default: .]")
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help="YAML file of settings, as of serve.")
@click.option("--mend", is_flag=True, help="Mend what can be mended. Stop the service first.")
@pass_session
def doctor(session: Session, data: Path | None, config: Path | None, mend: bool) -> int:
    """Looks for what is wrong with the data folder, the database and the hosts, and changes nothing unless told to.

    It looks for containers and volumes that belong to no job, leases of tasks that have ended, rows that refer to
    nothing, missing images, clocks that differ, files that others may read, a full disk, an old schema and damage. A
    service may run meanwhile, but what it is just doing may look wrong then.

    Ends with 0 if nothing is left to do, else with 1.

    \b
    Examples:
      schedulearn doctor --data /var/lib/schedulearn
      schedulearn doctor --mend --data /var/lib/schedulearn
    """
    from schedulearn.api.settings import load_settings
    from schedulearn.scheduler.doctor import Doctor, as_json
    from schedulearn.scheduler.errors import SchedulearnError

    try:
        settings = load_settings(config, data=data)
        if settings.database_url is not None:
            raise ClientError(
                "the database is not in the data folder but at `database_url`: doctor can't look at it; a service on "
                "PostgreSQL checks its tables at start, and removes containers of no job as it goes"
            )
        with Doctor(settings.data) as doing:
            found = doing.find()
            results = doing.mend(found) if mend else {}
    except SchedulearnError as error:
        raise ClientError(str(error)) from error
    left = [finding for finding in found if results.get(finding) != "" and finding.check != "images"]
    if session.as_json:
        print_json({"findings": as_json(found, results), "left": len(left)})
        return 1 if left else 0
    for finding in found:
        problem = results.get(finding)
        advice = finding.advice or "Mended by --mend."
        said = "Mended." if problem == "" else f"Could not be mended: {problem}" if problem else advice
        click.echo(f"{finding.check}: {finding.what}. {said}")
    click.echo(f"{len(left)} left to mend." if left else "Nothing is left to mend." if found else "Nothing is wrong.")
    return 1 if left else 0
