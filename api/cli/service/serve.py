"""Command `serve` and its options.

It imports `server.py` only when it runs, because that imports the whole service.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

import click

from schedulearn.api.cli.common import CliSession, pass_session


@click.command()
@click.option(
    "--host", metavar="ADDRESS", help="Address to listen on; others than loopback need a token.  [default: 127.0.0.1]"
)
@click.option("--port", type=click.IntRange(0, 65535), help="Port; 0 uses a free one and prints it.  [default: 8000]")
@click.option(
    "--data", type=click.Path(path_type=Path, file_okay=False), help="Folder of schedulearn.db and logs.  [default: .]"
)
@click.option(
    "--database",
    "--database-url",
    "database_url",
    metavar="URL",
    help="Database instead of schedulearn.db: postgresql://user@host/name. SCHEDULEARN_DATABASE_URL keeps it out of "
    "the list of processes.",
)
@click.option(
    "--runtime",
    type=click.Choice(["auto", "docker", "process"]),
    help="auto: Docker Engine if it answers, else local processes.  [default: auto]",
)
@click.option(
    "--simulate-gpus",
    type=click.IntRange(0, 1024),
    metavar="N",
    help="Number of simulated GPUs, instead of the real ones.",
)
@click.option("--token", help="Token that clients must send. SCHEDULEARN_TOKEN keeps it out of the list of processes.")
@click.option(
    "--tls-cert",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Certificate in PEM. By default the service makes one, except for loopback addresses.",
)
@click.option(
    "--tls-key",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Key of the certificate, if it is not in the FILE of --tls-cert.",
)
@click.option(
    "--tls",
    type=click.Choice(["auto", "off"]),
    help="off: plain HTTP, even on addresses other than loopback.  [default: auto]",
)
@click.option("--interval", type=float, metavar="SECONDS", help="Maximum seconds between decisions.  [default: 60]")
@click.option(
    "--config", type=click.Path(path_type=Path, dir_okay=False), help="YAML file of settings; flags override it."
)
@click.option("-v", "--verbose", is_flag=True, help="Log every request.")
@pass_session
def serve(session: CliSession, /, config: Path | None, verbose: bool, **flags: object) -> int:
    """Run the service: API, scheduler and web page.

    Stopping the service stops no jobs: it finds them again at its next start. Each setting is also a key of the YAML
    file, and an environment variable SCHEDULEARN_...

    \b
    Examples:
      schedulearn serve
      schedulearn serve --data ~/cluster --simulate-gpus 8 --runtime process
      schedulearn serve --host 0.0.0.0        (makes a token and a certificate, and says how clients know them)
      schedulearn serve --host 0.0.0.0 --tls-cert gpu1.pem --tls-key gpu1.key
    """
    # The matrices are tiny: threads would only spin, and take processors from everything else on this machine.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()  # importing some hundred modules leaves no garbage; looking for it takes 0.2 s
    from schedulearn.api.cli import Cli
    from schedulearn.api.cli.service.server import run

    root = click.get_current_context().find_root().command
    assert isinstance(root, Cli)
    return run(config, flags, root.features, verbose=verbose, as_json=session.as_json)
