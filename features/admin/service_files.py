"""Files of a service under systemd: unit, settings, and the places of all of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

USER = "schedulearn"
UNIT = "schedulearn.service"

_UNIT = """\
# Written by `schedulearn install-service`. Put changes of your own into a drop-in: systemctl edit schedulearn
[Unit]
Description=Schedulearn, scheduler for deep-learning training
Wants=network-online.target
After=network-online.target docker.service

[Service]
Type=exec
User={user}
Group={user}
{docker}ExecStart={home}/current/bin/schedulearn serve --config {config} --data {data}
Environment=SCHEDULEARN_CACHE={cache}
WorkingDirectory={data}
StateDirectory=schedulearn
StateDirectoryMode=0700
CacheDirectory=schedulearn
UMask=0077
Restart=on-failure
RestartSec=2
TimeoutStopSec=30
LimitNOFILE=65536
# A stop ends the service only: jobs that are local processes go on, as containers do.
KillMode=process

# No PrivateDevices, PrivateTmp or ProtectClock: local jobs use GPUs and /tmp, and outlive the service.
NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ReadWritePaths=/tmp /var/tmp
ProtectHome=read-only
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectHostname=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
LockPersonality=yes
SystemCallArchitectures=native
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK

[Install]
WantedBy=multi-user.target
"""

_SETTINGS = """\
# Settings of the service: docs/settings.md lists them. Restart it after a change: systemctl restart schedulearn
# Only root and the service may read this file, since it may hold secrets.

# Address to listen on. All except loopback need a token, which the service makes, and have TLS.
host: 127.0.0.1
port: 8000
"""


@dataclass(frozen=True)
class Places:
    """Where the service is. `root` is `/`, or the folder of another system's files."""

    root: Path

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    @property
    def home(self) -> Path:
        """Folder of its environments."""
        return self.at("/opt/schedulearn")

    @property
    def versions(self) -> Path:
        return self.home / "versions"

    @property
    def current(self) -> Path:
        return self.home / "current"

    @property
    def previous(self) -> Path:
        return self.home / "previous"

    @property
    def config(self) -> Path:
        return self.at("/etc/schedulearn/schedulearn.yaml")

    @property
    def data(self) -> Path:
        return self.at("/var/lib/schedulearn")

    @property
    def saved(self) -> Path:
        """Copy of the database from before the last upgrade."""
        return self.data / "before-upgrade.db"

    @property
    def unit(self) -> Path:
        return self.at(f"/etc/systemd/system/{UNIT}")


def unit_text(*, uses_docker: bool) -> str:
    """Return the unit. Its paths are those on the running system."""
    there = Places(Path("/"))
    docker = "SupplementaryGroups=docker\n" if uses_docker else ""
    return _UNIT.format(
        user=USER, docker=docker, home=there.home, config=there.config, data=there.data, cache="/var/cache/schedulearn"
    )


def settings_text() -> str:
    return _SETTINGS
