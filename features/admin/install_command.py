"""Command `install-service`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from schedulearn.api.cli.common import CliSession, Command, pass_session, print_json
from schedulearn.api.client.client import ClientError

_NEXT = """\
The service runs: systemctl status schedulearn, journalctl -u schedulearn.
Settings: /etc/schedulearn/schedulearn.yaml. On loopback only its own account is an admin. To add yourself:
  sudo -u schedulearn /opt/schedulearn/current/bin/schedulearn users add NAME --role admin
  sudo -u schedulearn /opt/schedulearn/current/bin/schedulearn tokens add NAME --user NAME --role admin"""


@click.command("install-service", cls=Command)
@click.option("--upgrade", is_flag=True, help="Replace the installed version, and keep it and a copy of the database.")
@click.option("--rollback", is_flag=True, help="Return to the version before the last upgrade.")
@click.option("--remove", is_flag=True, help="Remove unit and environments. Data, settings and the account stay.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--yes", is_flag=True, help="Don't ask for confirmation.")
@click.option(
    "--environment",
    type=click.Path(path_type=Path, file_okay=False, exists=True, resolve_path=True),
    help="Virtual environment to install.  [default: that of this command]",
)
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False, exists=True, resolve_path=True),
    default=Path("/"),
    show_default=True,
    help="Folder with the files of another system. There no account is made and nothing is started.",
)
@pass_session
def install_service(
    session: CliSession,
    /,
    upgrade: bool,
    rollback: bool,
    remove: bool,
    dry_run: bool,
    yes: bool,
    environment: Path | None,
    root: Path,
) -> None:
    """Install the service under systemd, or upgrade it.

    It shows what it will do, and asks. It makes an account, a data folder, a settings file and a hardened unit, and
    copies the virtual environment of this command to /opt/schedulearn. What is there already stays.

    \b
    Examples:
      schedulearn install-service --dry-run
      sudo .venv/bin/schedulearn install-service
      sudo .venv/bin/schedulearn install-service --upgrade
      sudo .venv/bin/schedulearn install-service --rollback
    """
    from schedulearn.features.admin.install import Installation, run_command
    from schedulearn.scheduler.errors import SchedulearnError

    if upgrade + rollback + remove > 1:
        raise click.UsageError("use one of --upgrade, --rollback and --remove")
    if root == Path("/") and os.geteuid() != 0 and not dry_run:
        raise ClientError("this changes the system: run it as root, or see what it would do by --dry-run")
    try:
        service = Installation(root, run_command, _uses_postgres)
        if remove:
            steps = service.remove()
        elif rollback:
            steps = service.roll_back()
        else:
            steps = service.install(environment or Path(sys.prefix), upgrade=upgrade)
        if session.as_json:
            print_json({"steps": [step.say for step in steps], "done": bool(steps) and not dry_run})
        else:
            click.echo("\n".join(f"- {step.say}" for step in steps) or "Nothing is left to do.")
        if dry_run or not steps:
            return
        if not yes:
            click.confirm("Do all this?", abort=True, err=session.as_json)
        for step in steps:
            try:
                step.do()
            except (SchedulearnError, OSError) as error:
                raise ClientError(
                    f"{step.say} failed: {error}. The steps before it are done, and the service may be stopped: "
                    "correct this and run the command again"
                ) from error
    except (SchedulearnError, OSError) as error:
        raise ClientError(str(error)) from error
    if root == Path("/") and not (remove or rollback or session.as_json):
        click.echo(_NEXT)


def _uses_postgres(config: Path) -> bool:
    from schedulearn.api.settings import load_settings

    return load_settings(config).database_url is not None
