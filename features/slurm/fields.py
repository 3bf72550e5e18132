"""Jobs and hosts in Slurm's words: their fields as text."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from schedulearn.api.client.client import Json
from schedulearn.features.slurm.hostlist import compress
from schedulearn.features.slurm.numbers import ARRAY, TASK, number_of, shown_number
from schedulearn.scheduler.core.states import TERMINAL, JobState

PARTITION = "main"
"""The only partition: all hosts."""
CLUSTER = "schedulearn"
STATES: Mapping[JobState, tuple[str, str]] = {
    JobState.QUEUED: ("PENDING", "PD"),
    JobState.PULLING: ("PENDING", "PD"),
    JobState.STARTING: ("RUNNING", "R"),
    JobState.RUNNING: ("RUNNING", "R"),
    JobState.RESIZING: ("RUNNING", "R"),
    JobState.STOPPING: ("COMPLETING", "CG"),
    JobState.SUCCEEDED: ("COMPLETED", "CD"),
    JobState.FAILED: ("FAILED", "F"),
    JobState.CANCELLED: ("CANCELLED", "CA"),
    JobState.TIMEOUT: ("TIMEOUT", "TO"),
}
"""State of a job -> Slurm's name of it, long and short."""
NEVER = frozenset({
    "CONFIGURING", "CF", "SUSPENDED", "S", "NODE_FAIL", "NF", "PREEMPTED", "PR", "BOOT_FAIL", "BF", "DEADLINE", "DL",
    "OUT_OF_MEMORY", "OOM", "REQUEUED", "RQ", "REQUEUE_HOLD", "RH", "RESIZING", "RS", "REVOKED", "RV", "SIGNALING",
    "SI", "SPECIAL_EXIT", "SE", "STAGE_OUT", "SO", "STOPPED", "ST",
})  # fmt: skip
"""States of Slurm that no job has here."""
_REASONS = {
    "behind_others": "Priority", "fair_share": "Priority", "gpus_lent": "Resources", "over_quota": "AssocGrpGRES",
    "held": "JobHeldUser", "paused": "JobHeldUser", "waiting_for_jobs": "Dependency", "start_after": "BeginTime",
    "submitted": "None",
}  # fmt: skip
_MIB = 1 << 20


def states_of(text: str) -> set[JobState]:
    """Return the states that `R,PENDING` means; `all`: every state. Raises ValueError."""
    found: set[JobState] = set()
    for word in filter(None, text.upper().split(",")):
        if word == "ALL":
            return set(JobState)
        named = {state for state, names in STATES.items() if word in names}
        if not named and word not in NEVER:
            raise ValueError(f"Invalid job state specified: {word}")
        found |= named
    return found


def queue_fields(job: Json) -> dict[str, str]:
    """Return the fields of a job for squeue, by the names of --Format."""
    state = JobState(job["state"])
    long, short = STATES[state]
    hosts = compress(job["allocation"])
    limit, used = job["max_duration"], job["run_seconds"]
    reason = reason_of(job)
    labels = job["labels"]
    return {
        "jobid": str(number_of(job["id"])),
        "jobarrayid": shown_number(job),
        "arrayjobid": labels.get(ARRAY, str(number_of(job["id"]))),
        "arraytaskid": labels.get(TASK, "N/A"),
        "name": job["name"],
        "username": job["user"],
        "state": long,
        "statecompact": short,
        "timeused": clock(used),
        "timelimit": clock(limit) if limit else "UNLIMITED",
        "timeleft": clock(max(0.0, limit - used)) if limit else "UNLIMITED",
        "numnodes": str(max(1, len(job["allocation"]))),
        "numcpus": str(cpus_of(job)),
        "minmemory": megabytes(job["memory"]),
        "reason": reason,
        "nodelist": hosts,
        "reasonlist": f"({reason})" if state in _SHOWN_BY_REASON else hosts,
        "partition": PARTITION,
        "priority": str(job["priority"]),
        "prioritylong": str(job["priority"]),
        "starttime": instant(job["started_at"] or (job["eta"] or {}).get("start")),
        "endtime": instant(job["finished_at"] or (job["eta"] or {}).get("end")),
        "submittime": instant(job["submitted_at"]),
        "tres-per-node": tres(job) or "N/A",
        "account": labels.get("account", "(null)"),
        "qos": "(null)",
        "command": "(null)",
        "comment": job["description"] or "(null)",
        "dependency": dependency(job) or "(null)",
        "exit_code": str(job["exit_code"] or 0),
    }


_SHOWN_BY_REASON = {JobState.QUEUED, JobState.PULLING, JobState.FAILED, JobState.TIMEOUT}


def accounting_fields(job: Json) -> dict[str, str]:
    """Return the fields of a job for sacct."""
    state = JobState(job["state"])
    cpus, seconds = cpus_of(job), job["run_seconds"]
    code = exit_code(job)
    gpus = f",gres/gpu={job['required_gpus']}" if job["required_gpus"] else ""
    memory = f",mem={megabytes(job['memory'])}" if job["memory"] else ""
    resources = f"billing={cpus},cpu={cpus}{gpus}{memory},node=1"
    begun = job["started_at"] is not None
    return {
        "JobID": shown_number(job),
        "JobIDRaw": str(number_of(job["id"])),
        "JobName": job["name"],
        "User": job["user"],
        "Partition": PARTITION,
        "Account": job["labels"].get("account", ""),
        "Cluster": CLUSTER,
        "QOS": "",
        "State": STATES[state][0],
        "ExitCode": code,
        "DerivedExitCode": "0:0",
        "AllocCPUS": str(cpus if begun else 0),
        "NCPUS": str(cpus),
        "ReqCPUS": str(cpus),
        "AllocNodes": str(1 if begun else 0),
        "NNodes": str(max(1, len(job["allocation"]))),
        "AllocTRES": resources if begun else "",
        "ReqTRES": resources,
        "ReqMem": megabytes(job["memory"]),
        "Elapsed": clock(seconds, hours=True),
        "ElapsedRaw": str(int(seconds)),
        "CPUTime": clock(seconds * cpus, hours=True),
        "CPUTimeRAW": str(int(seconds * cpus)),
        "Submit": instant(job["submitted_at"]),
        "Start": instant(job["started_at"], unknown="Unknown"),
        "End": instant(job["finished_at"], unknown="Unknown"),
        "Timelimit": clock(job["max_duration"], hours=True) if job["max_duration"] else "UNLIMITED",
        "TimelimitRaw": str(math.ceil(job["max_duration"] / 60)) if job["max_duration"] else "UNLIMITED",
        "Priority": str(job["priority"]),
        "Comment": job["description"] or "",
        "Reason": reason_of(job),
        "NodeList": compress(hosts_of(job)) or "None assigned",
        "NTasks": "",
        "MaxRSS": "",
    }


def hosts_of(job: Json) -> Sequence[str]:
    """Return the hosts of a job now, or of its last attempt if that is known."""
    if job["allocation"]:
        return list(job["allocation"])
    tasks = job.get("tasks") or []
    return [task["host"] for task in tasks if task["attempt"] == tasks[-1]["attempt"]]


def exit_code(job: Json) -> str:
    """Return exit code and signal, as in `1:0`."""
    if JobState(job["state"]) is JobState.CANCELLED:
        return "0:15"
    return f"{job['exit_code'] or 0}:0" if JobState(job["state"]) is not JobState.TIMEOUT else "0:0"


def reason_of(job: Json) -> str:
    """Return Slurm's word for why a job waits or failed."""
    state = JobState(job["state"])
    if state in (JobState.QUEUED, JobState.PULLING):
        if job["held_at"] is not None:
            return "JobHeldUser"
        if job["reason"] == "submitted" and job["after"] is not None:
            return "Dependency"  # no cycle has looked at it yet
        return _REASONS.get(str(job["reason"]), "Resources")
    return {JobState.FAILED: "NonZeroExitCode", JobState.TIMEOUT: "TimeLimit"}.get(state, "None")


def dependency(job: Json) -> str:
    """Return the jobs that a job waits for, as in `afterok:1:2`."""
    after = job["after"]
    if after is None or JobState(job["state"]) in TERMINAL:
        return ""
    numbers = ":".join(str(number_of(each)) for each in after["jobs"])
    return f"{'afterok' if after['when'] == 'ok' else 'afterany'}:{numbers}"


def tres(job: Json) -> str:
    """Return the GPUs of a job, as in `gres/gpu:a100:2`; empty: none."""
    if not job["required_gpus"]:
        return ""
    types = job["gpu_type"] or []
    kind = f":{types if isinstance(types, str) else '|'.join(types)}" if types else ""
    return f"gres/gpu{kind}:{job['required_gpus']}"


def cpus_of(job: Json) -> int:
    """Return the processors of a job; 1 for a job without a limit."""
    return math.ceil(job["cpus"]) if job["cpus"] else 1


def megabytes(size: float | None) -> str:
    """Return a size as in `512M` or `16G`; `0`: no limit."""
    if not size:
        return "0"
    whole = math.ceil(size / _MIB)
    return f"{whole // 1024}G" if whole % 1024 == 0 else f"{whole}M"


def clock(seconds: float | None, *, hours: bool = False) -> str:
    """Return a duration as in `1:05`, `2:00:00` or `1-00:00:00`. `hours`: with hours always."""
    whole = int(seconds or 0)
    days, rest = divmod(whole, 86_400)
    hour, rest = divmod(rest, 3600)
    minute, second = divmod(rest, 60)
    if days:
        return f"{days}-{hour:02}:{minute:02}:{second:02}"
    if hours:
        return f"{hour:02}:{minute:02}:{second:02}"
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


def instant(text: str | None, *, unknown: str = "N/A") -> str:
    """Return an instant in the zone of this machine, as in `2026-12-24T18:00:00`."""
    if text is None:
        return unknown
    at = datetime.fromisoformat(text)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone().strftime("%Y-%m-%dT%H:%M:%S")


def node_fields(host: Json, jobs: Sequence[Json]) -> dict[str, str]:
    """Return the fields of a host for sinfo. `jobs`: those that run somewhere."""
    here = [job for job in jobs if host["id"] in job["allocation"]]
    gpus = [gpu for gpu in host["gpus"] if gpu["state"] != "unhealthy"]
    used = sum(1 for gpu in gpus if gpu["jobs"])
    state = node_state(host, here, used, len(gpus))
    cpus = int(host["cpus"] or 0)
    taken = min(cpus, sum(cpus_of(job) for job in here))
    closed = state.startswith(("down", "drain"))
    counts = (taken, 0, cpus - taken, cpus) if closed else (taken, cpus - taken, 0, cpus)
    return {
        "nodelist": host["id"],
        "nodehost": host["id"],
        "nodeaddr": host["address"],
        "nodes": "1",
        "partition": f"{PARTITION}*",
        "partitionname": PARTITION,
        "available": "up",
        "time": "infinite",
        "state": state,
        "statecompact": _SHORT_STATES.get(state.rstrip("*~"), state.rstrip("*~")) + state[len(state.rstrip("*~")) :],
        "cpus": str(cpus),
        "cpusstate": "/".join(map(str, counts)),
        "nodesstate": "0/0/1/1" if closed else "1/0/0/1" if here or used else "0/1/0/1",
        "memory": str(int(host["memory_bytes"] or 0) // _MIB),
        "gres": _gres(gpus) or "(null)",
        "gresused": f"gpu:{used}",
        "reason": host["error"] or ("cordoned" if closed else "none"),
        "features": ",".join(f"{key}={value}" for key, value in sorted(host["labels"].items())) or "(null)",
        "version": host["version"],
    }


_SHORT_STATES = {"mixed": "mix", "allocated": "alloc", "drained": "drain", "draining": "drng"}


def node_state(host: Json, here: Sequence[Json], used: int, gpus: int) -> str:
    """Return the state of a host in Slurm's words."""
    if not host["reachable"] or host["lost_at"]:
        return "down*"
    if host["state"] in ("parked", "emptying"):
        return "idle~"
    if host["state"] in ("cordoned", "draining"):
        return "draining" if here else "drained"
    if gpus and used == gpus:
        return "allocated"
    return "mixed" if here or used else "idle"


def _gres(gpus: Sequence[Json]) -> str:
    counts: dict[str, int] = {}
    for gpu in gpus:
        kind = str(gpu["type"]).replace(" ", "_").replace(",", "_").lower()
        counts[kind] = counts.get(kind, 0) + 1
    return ",".join(f"gpu:{kind}:{count}" for kind, count in counts.items())


def merged(nodes: Sequence[dict[str, str]], keys: Sequence[str]) -> list[dict[str, str]]:
    """Return rows of sinfo: hosts that are equal in `keys` share one."""
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for node in nodes:
        groups.setdefault(tuple(node[key] for key in keys), []).append(node)
    rows = []
    for group in groups.values():
        rows.append({
            **group[0],
            "nodelist": compress(node["nodelist"] for node in group),
            "nodes": str(len(group)),
            **{field: _summed(node[field] for node in group) for field in ("cpusstate", "nodesstate")},
        })  # fmt: skip
    return rows


def _summed(counts: Iterable[str]) -> str:
    """Return the sum of counts such as `1/2/0/3`."""
    return "/".join(str(sum(column)) for column in zip(*(map(int, each.split("/")) for each in counts), strict=True))


def since(text: str, now: float | None = None) -> str:
    """Return ISO 8601 for a time of sacct: `2026-12-24`, `18:00`, `today`, `now-2days`. Raises ValueError."""
    local = datetime.fromtimestamp(time.time() if now is None else now).astimezone()
    words: dict[str, datetime] = {"now": local, "today": local.replace(hour=0, minute=0, second=0, microsecond=0)}
    words["midnight"] = words["today"]
    lowered = text.strip().lower()
    base, minus, span = (
        lowered.partition("-") if lowered.startswith(("now", "today", "midnight")) else (lowered, "", "")
    )
    if base in words:
        return (words[base] - _span(span) if minus else words[base]).astimezone(UTC).isoformat()
    for form in ("%H:%M", "%H:%M:%S", "%m/%d/%y", "%m/%d", "%m%d%y"):
        try:
            at = datetime.strptime(f"{local.year} {lowered}", f"%Y {form}")
        except ValueError:
            continue
        if form.startswith("%H"):
            at = at.replace(month=local.month, day=local.day)
        return at.astimezone(UTC).isoformat()
    try:
        return datetime.fromisoformat(text.strip()).astimezone(UTC).isoformat()
    except ValueError as error:
        raise ValueError(f"Invalid time specification {text!r}: write e.g. 2026-12-24 or now-2days") from error


def _span(text: str) -> timedelta:
    match = re.fullmatch(r"(\d{1,6})([a-z]*)", text)
    units = {"": 1, "second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
    unit = match[2].removesuffix("s") if match else "?"
    if match is None or unit not in units:
        raise ValueError(f"Invalid time specification: {text!r} is not a duration: write e.g. now-2days")
    return timedelta(seconds=int(match[1]) * units[unit])
