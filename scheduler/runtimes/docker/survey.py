"""Properties and problems of a Docker Engine."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from schedulearn.scheduler.core.host_facts import HostFacts, HostProblem
from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.docker.api import Engine
from schedulearn.scheduler.runtimes.docker.container import cdi_devices

OLDEST = (20, 10)  # the first version with the container init, device requests and log format that we rely on
SKEW_S = 2.0


def survey(engine: Engine) -> HostFacts:
    """Implement `Runtime.survey`."""
    with engine.errors("describe itself"):
        before = time.time()
        info: Mapping[str, Any] = engine.api.info()
        middle = (before + time.time()) / 2
    version = str(info.get("ServerVersion", ""))
    if (found := re.match(r"(\d+)\.(\d+)", version)) and (int(found[1]), int(found[2])) < OLDEST:
        raise RuntimeFault(
            f"the Docker Engine at {engine.url} is version {version}; Schedulearn needs "
            f"{'.'.join(map(str, OLDEST))} or newer: upgrade Docker there"
        )
    return HostFacts(
        engine_id=str(info.get("ID", "")),
        version=version,
        cpus=int(info.get("NCPU") or 0),
        memory_bytes=int(info.get("MemTotal") or 0),
        nvidia=_gives_gpus(info),
        problems=tuple(problems(info, middle)),
    )


def _gives_gpus(info: Mapping[str, Any]) -> bool:
    return "nvidia" in (info.get("Runtimes") or {}) or _has_cdi(info)


def _has_cdi(info: Mapping[str, Any]) -> bool:
    return any(name.startswith("nvidia.com/gpu") for name in cdi_devices(info))


def _by_systemd(info: Mapping[str, Any]) -> bool:
    """Whether systemd manages the containers' control groups, in version 2."""
    return str(info.get("CgroupVersion")) == "2" and info.get("CgroupDriver") == "systemd"


def problems(info: Mapping[str, Any], our_time: float) -> Iterator[HostProblem]:
    if info.get("OSType", "linux") != "linux":
        yield HostProblem("not_linux", f"It runs {info['OSType']} containers; jobs need Linux ones.")
    if (theirs := _seconds(str(info.get("SystemTime", "")))) is not None and abs(theirs - our_time) > SKEW_S:
        off = f"{abs(theirs - our_time):.0f} s {'ahead of' if theirs > our_time else 'behind'}"
        yield HostProblem(
            "time_skew",
            f"Its clock is {off} the service's, so times of jobs and logs there are wrong: synchronize it (NTP).",
        )
    if "nvidia" in (info.get("Runtimes") or {}) and _by_systemd(info) and not _has_cdi(info):
        yield HostProblem(
            "gpus_by_hook",
            "It has no CDI description of its GPUs, so `systemctl daemon-reload` can take GPUs from running "
            "containers: run nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, then restart its Docker (25 or "
            "newer).",
        )
    if (info.get("SecurityOptions") or []) and any("rootless" in option for option in info["SecurityOptions"]):
        yield HostProblem("rootless", "Its engine is rootless: jobs over several hosts can't use its network.")


def _seconds(text: str) -> float | None:
    """Convert a time with at most nine decimals to seconds since the epoch. None if it is invalid."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)", text)
    return datetime.fromisoformat(match[1] + match[2].replace("Z", "+00:00")).timestamp() if match else None
