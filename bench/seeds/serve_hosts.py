"""The command `schedulearn`, whose further hosts are local processes too: several hosts on one machine, without Docker.

Each host has tasks, checkpoints and outputs of its own, below `hosts/` of the data folder; all else is the service's.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from schedulearn.main import main
from schedulearn.scheduler.hosts import parking
from schedulearn.scheduler.hosts.docker_hosts import DockerHosts
from schedulearn.scheduler.hosts.fleet import RemoteHost
from schedulearn.scheduler.runtimes.contract import Runtime
from schedulearn.scheduler.runtimes.process.runtime import ProcessRuntime


def make_runtime(hosts: DockerHosts, host: RemoteHost) -> Runtime:
    folder, logs = hosts.data_dir / "hosts" / host.id, hosts.data_dir / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    logs.mkdir(exist_ok=True)
    if not (folder / "logs").is_symlink():
        (folder / "logs").symlink_to(logs.absolute())  # the service reads logs of all hosts in one place
    environments = json.loads(os.environ["SCHEDULEARN_ENVIRONMENTS"])
    return ProcessRuntime(host.id, folder, {name: Path(prefix) for name, prefix in environments.items()})


if __name__ == "__main__":
    DockerHosts.runtime = make_runtime  # type: ignore[method-assign, assignment]
    # The hosts here are on at once, so that they are switched need not be thought over for minutes either.
    parking.SETTLE_S, parking.EVERY_S = 3.0, 1.0
    main()
