"""Command `client`, which shows how to install the command line from a service."""

from __future__ import annotations

from urllib.parse import urlsplit

import click

from schedulearn.api.cli.common import CliSession, Command, clean, pass_session, print_json
from schedulearn.api.client.transport import Json


@click.command(cls=Command)
@pass_session
def client(session: CliSession) -> None:
    """Show how to install this command on a laptop.

    The wheel comes from the service, so its version fits. It needs Python 3.11 or newer on Linux, macOS or Windows.

    \b
    Example:
      schedulearn client --url http://gpu1:8000
    """
    found = session.client.client_wheel()
    if session.as_json:
        print_json({**found, "install": install_lines(session.client.url, found)})
        return
    click.echo("On your laptop, one of:")
    for line in install_lines(session.client.url, found):
        click.echo(f"  {clean(line)}")
    click.echo("Then log in, and run a first job:")
    click.echo(f"  schedulearn login {clean(session.client.url)}")
    click.echo("  schedulearn run -- python train.py")


def install_lines(url: str, wheel: Json) -> list[str]:
    """Return the commands that install the wheel of the service at `url`: with uv, pipx and pip.

    No authority vouches for a certificate that the service made. There the lines check the hash of the wheel instead:
    pip by the address, while uv ignores a hash there."""
    address, name = f"{url}{wheel['path']}", wheel["path"].rpartition("/")[2]
    if not (url.startswith("https:") and wheel["certificate"]):
        wish = f'"schedulearn[cli] @ {address}"'
        return [f"uv tool install {wish}", f"pipx install {wish}", f"pip install {wish}"]
    wish = f'"schedulearn[cli] @ {address}#sha256={wheel["sha256"]}"'
    trust = f"--trusted-host {urlsplit(url).netloc}"
    return [
        f'curl -kO {address} && echo "{wheel["sha256"]}  {name}" | sha256sum -c && uv tool install "./{name}[cli]"',
        f'pipx install --pip-args="{trust}" {wish}',
        f"pip install {trust} {wish}",
    ]
