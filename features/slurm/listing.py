"""Programs `squeue`, `sacct`, `sinfo` and `sprio`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import click

from schedulearn.api.cli.common import CliSession, clean, pass_session
from schedulearn.api.client.client import ClientError, Json
from schedulearn.features.slurm.fields import (
    accounting_fields,
    merged,
    node_fields,
    queue_fields,
    since,
    states_of,
)
from schedulearn.features.slurm.formats import Column, by_accounting, by_letters, by_names, lines, parsable
from schedulearn.features.slurm.hostlist import compress
from schedulearn.features.slurm.numbers import find_jobs
from schedulearn.features.slurm.options import Syntax, parse
from schedulearn.features.slurm.programs import Program, tell_user
from schedulearn.scheduler.core.states import HOLDS_GPUS, TERMINAL, UNFINISHED, WAITS, JobState

_RECENT_S = 300
"""Seconds for which squeue shows a job that has ended: Slurm's MinJobAge."""
_MAX_DETAILS = 500
"""Maximum jobs that are asked for one by one, for their memory."""

_JOB_LETTERS = {
    "i": ("jobarrayid", "JOBID"), "A": ("jobid", "JOBID"), "F": ("arrayjobid", "ARRAY_JOB_ID"),
    "K": ("arraytaskid", "ARRAY_TASK_ID"), "j": ("name", "NAME"), "u": ("username", "USER"),
    "t": ("statecompact", "ST"),
    "T": ("state", "STATE"), "M": ("timeused", "TIME"), "l": ("timelimit", "TIME_LIMIT"),
    "L": ("timeleft", "TIME_LEFT"),
    "D": ("numnodes", "NODES"), "C": ("numcpus", "CPUS"), "m": ("minmemory", "MIN_MEMORY"), "r": ("reason", "REASON"),
    "R": ("reasonlist", "NODELIST(REASON)"), "N": ("nodelist", "NODELIST"), "P": ("partition", "PARTITION"),
    "p": ("priority", "PRIORITY"), "Q": ("prioritylong", "PRIORITY"), "S": ("starttime", "START_TIME"),
    "e": ("endtime", "END_TIME"), "V": ("submittime", "SUBMIT_TIME"), "b": ("tres-per-node", "TRES_PER_NODE"),
    "a": ("account", "ACCOUNT"), "q": ("qos", "QOS"), "o": ("command", "COMMAND"), "k": ("comment", "COMMENT"),
    "E": ("dependency", "DEPENDENCY"),
}  # fmt: skip
_JOB_NAMES = dict(_JOB_LETTERS.values()) | {"exit_code": "EXIT_CODE"}
_QUEUE = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
_QUEUE_LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
_QUEUE_START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %R"
_SQUEUE = Syntax(
    "squeue",
    {"u": "user", "j": "jobs", "t": "states", "n": "name", "p": "partition", "h": "noheader", "o": "format",
     "O": "Format", "l": "long", "a": "all", "A": "account", "w": "nodelist", "S": "sort", "r": "array", "v": "verbose",
     "q": "qos"},
    frozenset({"user", "jobs", "states", "name", "partition", "format", "Format", "account", "nodelist", "sort",
               "qos"}),
    frozenset({"me", "noheader", "long", "all", "array", "verbose", "start"}),
)  # fmt: skip


@click.command(cls=Program)
@click.pass_context
@pass_session
def squeue(session: CliSession, context: click.Context, /, words: tuple[str, ...]) -> None:
    """Show jobs that have not ended, as Slurm's squeue.

    \b
    Examples:
      squeue --me
      squeue -h -j 29876543210987 -o %T
      squeue -u ada -t PENDING -o "%.18i %.9P %.30j %.2t %R"
    """
    given = _given(words, _SQUEUE)
    columns = _columns(given, _JOB_LETTERS, _JOB_NAMES, _queue_format(given))
    jobs = _queued(session, given)
    tell_user(session, context, given, jobs)
    rows = [queue_fields(job) for job in sorted(jobs, key=_queue_order)]
    if "array" not in given:
        rows = _collapsed(rows)
    if "sort" in given:
        rows = _sorted(rows, given["sort"])
    if "long" in given and "noheader" not in given:
        click.echo(datetime.now().astimezone().strftime("%a %b %d %H:%M:%S %Y"))
    _print(lines(columns, rows, header="noheader" not in given))


def _queue_format(given: Mapping[str, str]) -> str:
    if "start" in given:
        return _QUEUE_START
    return _QUEUE_LONG if "long" in given else _QUEUE


def _given(words: Sequence[str], syntax: Syntax) -> dict[str, str]:
    """Return the options. Raises ValueError."""
    options, rest = parse(words, syntax)
    if rest:
        raise ValueError(f"Unrecognized option: {rest[0]}")
    return dict(options)


def _columns(
    given: Mapping[str, str], letters: Mapping[str, tuple[str, str]], names: Mapping[str, str], default: str
) -> list[Column]:
    if "Format" in given:
        return by_names(given["Format"], names)
    return by_letters(given.get("format", default), letters)


def _print(table: Iterator[str]) -> None:
    for line in table:
        click.echo(clean(line))


def _queued(session: CliSession, given: Mapping[str, str]) -> list[Json]:
    """Return the jobs that squeue shows."""
    states = states_of(given["states"]) if "states" in given else set(UNFINISHED)
    if "jobs" in given:
        found: list[Json] = list(find_jobs(session, [given["jobs"]]))
    else:
        ended = (datetime.now(UTC) - timedelta(seconds=_RECENT_S)).isoformat() if states & TERMINAL else None
        user = session.user() if "me" in given else _single(given.get("user"))
        found = session.client.all_jobs(sorted(states), user=user, ended_since=ended)["items"] if states else []
    if "start" in given:
        states &= WAITS
    return [job for job in found if JobState(job["state"]) in states and _wanted(session, job, given)]


def _single(text: str | None) -> str | None:
    """Return the only word of a list; None: there are several, or none."""
    return text if text and "," not in text else None


def _wanted(session: CliSession, job: Json, given: Mapping[str, str]) -> bool:
    user = session.user() if "me" in given else given.get("user")
    hosts = given.get("nodelist")
    return (
        (user is None or job["user"] in user.split(","))
        and ("name" not in given or job["name"] in given["name"].split(","))
        and ("partition" not in given or "main" in given["partition"].split(","))
        and ("account" not in given or job["labels"].get("account") in given["account"].split(","))
        and "qos" not in given
        and (hosts is None or not job["allocation"].keys().isdisjoint(hosts.split(",")))
    )


def _queue_order(job: Json) -> tuple[int, int, str]:
    """Return the order of Slurm: by state, then by priority, then by number."""
    return list(JobState).index(JobState(job["state"])), -job["priority"], job["id"]


def _collapsed(rows: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Return the rows with the waiting jobs of an array in one: `100_[1-3]`."""
    found: list[dict[str, str]] = []
    groups: dict[tuple[str, str, bool], list[str]] = {}
    for row in rows:
        if row["state"] != "PENDING" or row["arraytaskid"] == "N/A":
            found.append(row)
            continue
        key = (row["arrayjobid"], row["username"], row["reason"] == "JobHeldUser")
        if key not in groups:
            groups[key] = []
            found.append(row)
        groups[key].append(row["arraytaskid"])
    for row in found:
        tasks = groups.get((row["arrayjobid"], row["username"], row["reason"] == "JobHeldUser"), [])
        if row["state"] == "PENDING" and len(tasks) > 1:
            spans = compress(f"n{task}" for task in tasks).removeprefix("n").strip("[]")
            row |= {"jobarrayid": f"{row['arrayjobid']}_[{spans}]", "arraytaskid": spans}
    return found


def _sorted(rows: list[dict[str, str]], text: str) -> list[dict[str, str]]:
    """Return rows in the order of `-p,i`. Raises ValueError."""
    for part in reversed(text.split(",")):
        letter = part.lstrip("+-")
        if letter not in _JOB_LETTERS:
            raise ValueError(f"Invalid sort specification: {part!r}")
        field = _JOB_LETTERS[letter][0]

        def key(row: dict[str, str], field: str = field) -> tuple[int, float, str]:
            text = row[field]
            return (0, float(text), "") if text.replace(".", "", 1).isdigit() else (1, 0.0, text)

        rows = sorted(rows, key=key, reverse=part.startswith("-"))
    return rows


_ACCOUNTED = {
    "JobID": -20, "JobIDRaw": -20, "JobName": 10, "User": 9, "Partition": 10, "Account": 10, "Cluster": 10, "QOS": 10,
    "State": 10, "ExitCode": 8, "DerivedExitCode": 15, "AllocCPUS": 10, "NCPUS": 10, "ReqCPUS": 8, "AllocNodes": 10,
    "NNodes": 8, "NTasks": 8, "AllocTRES": 10, "ReqTRES": 10, "ReqMem": 10, "MaxRSS": 10, "Elapsed": 10,
    "ElapsedRaw": 10, "CPUTime": 10, "CPUTimeRAW": 10, "Submit": 19, "Start": 19, "End": 19, "Timelimit": 10,
    "TimelimitRaw": 12, "Priority": 10, "Comment": 14, "Reason": 22, "NodeList": 15,
}  # fmt: skip
"""Field of sacct -> its width; negative: written at the left. Numbers of jobs are longer than those of Slurm."""
_ACCOUNTING = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
_BRIEF = "JobID,State,ExitCode"
_SACCT = Syntax(
    "sacct",
    {"j": "jobs", "u": "user", "o": "format", "S": "starttime", "E": "endtime", "s": "state", "n": "noheader",
     "X": "allocations", "P": "parsable2", "p": "parsable", "a": "allusers", "b": "brief", "A": "accounts",
     "r": "partition", "D": "duplicates", "L": "allclusters"},
    frozenset({"jobs", "user", "uid", "format", "starttime", "endtime", "state", "name", "accounts", "partition",
               "delimiter"}),
    frozenset({"noheader", "allocations", "parsable", "parsable2", "allusers", "brief", "duplicates", "allclusters",
               "noconvert"}),
)  # fmt: skip


@click.command(cls=Program)
@click.pass_context
@pass_session
def sacct(session: CliSession, context: click.Context, /, words: tuple[str, ...]) -> None:
    """Show jobs that have ended too, as Slurm's sacct.

    Without -X each job that has begun has a second line, JOB.batch, with its memory.

    \b
    Examples:
      sacct --starttime now-2days
      sacct -X -n -P -j 29876543210987 -o State,ExitCode
    """
    given = _given(words, _SACCT)
    columns = by_accounting(given.get("format", _BRIEF if "brief" in given else _ACCOUNTING), _ACCOUNTED)
    jobs = _past(session, given)
    tell_user(session, context, given, jobs)
    if any(column.field in ("MaxRSS", "NodeList") for column in columns):
        if len(jobs) > _MAX_DETAILS:
            raise ClientError(f"MaxRSS and NodeList of {len(jobs)} jobs: name at most {_MAX_DETAILS} with -j")
        jobs = [session.client.job(job["id"]) for job in jobs]
    rows = [row for job in jobs for row in _accounted(job, steps="allocations" not in given)]
    header = "noheader" not in given
    if "parsable" in given or "parsable2" in given:
        between = given.get("delimiter", "|")
        _print(parsable(columns, rows, header=header, ends="parsable" in given, between=between))
        return
    if header:
        dashes = {column.field: "-" * (column.width or 0) for column in columns}
        rows = [dashes, *rows]
    _print(lines(columns, rows, header=header))


def _past(session: CliSession, given: Mapping[str, str]) -> list[Json]:
    """Return the jobs that sacct shows, oldest first."""
    start = since(given["starttime"]) if "starttime" in given else None
    if "jobs" in given:
        found: list[Json] = list(find_jobs(session, [given["jobs"]]))
    else:
        user = given.get("user") or given.get("uid") or (None if "allusers" in given else session.user())
        start = start or since("today")
        found = session.client.all_jobs(user=_single(user), ended_since=start)["items"]
        found = [job for job in found if user is None or job["user"] in user.split(",")]
    states = states_of(given["state"]) if "state" in given else set(JobState)
    end = datetime.fromisoformat(since(given["endtime"])) if "endtime" in given else None
    names = given["name"].split(",") if "name" in given else None
    accounts = given["accounts"].split(",") if "accounts" in given else None
    kept = [
        job
        for job in found
        if JobState(job["state"]) in states
        and (end is None or datetime.fromisoformat(job["submitted_at"]) <= end)
        and (names is None or job["name"] in names)
        and (accounts is None or job["labels"].get("account") in accounts)
        and ("partition" not in given or "main" in given["partition"].split(","))
    ]
    return sorted(kept, key=lambda job: str(job["id"]))


def _accounted(job: Json, *, steps: bool) -> Iterator[dict[str, str]]:
    """Yield the rows of a job: the job, and its batch step."""
    row = accounting_fields(job)
    yield row
    if not steps or job["started_at"] is None:
        return
    peaks = [task["memory_peak"] for task in job.get("tasks", ()) if task["memory_peak"] is not None]
    yield {
        **row,
        "JobID": f"{row['JobID']}.batch",
        "JobIDRaw": f"{row['JobIDRaw']}.batch",
        "JobName": "batch",
        "User": "",
        "Partition": "",
        "QOS": "",
        "ReqTRES": "",
        "Timelimit": "",
        "TimelimitRaw": "",
        "Priority": "",
        "NTasks": "1",
        "MaxRSS": f"{max(peaks) // 1024}K" if peaks else "",
    }


_NODE_LETTERS = {
    "P": ("partition", "PARTITION"), "R": ("partitionname", "PARTITION"), "a": ("available", "AVAIL"),
    "l": ("time", "TIMELIMIT"), "D": ("nodes", "NODES"), "F": ("nodesstate", "NODES(A/I/O/T)"),
    "t": ("statecompact", "STATE"), "T": ("state", "STATE"),
    "N": ("nodelist", "NODELIST"), "n": ("nodehost", "HOSTNAMES"), "o": ("nodeaddr", "NODE_ADDR"),
    "c": ("cpus", "CPUS"),
    "C": ("cpusstate", "CPUS(A/I/O/T)"), "m": ("memory", "MEMORY"), "G": ("gres", "GRES"), "E": ("reason", "REASON"),
    "f": ("features", "AVAIL_FEATURES"), "v": ("version", "VERSION"),
}  # fmt: skip
_NODE_NAMES = dict(_NODE_LETTERS.values()) | {"gresused": "GRES_USED"}
_NODES = "%9P %.5a %.10l %.6D %.6t %N"
_EACH_NODE = "%N %.6D %.9P %6t"
_NODES_LONG = "%9P %.5a %.10l %.6D %.11T %N"
_SUMMARY = "%9P %.5a %.10l %.16F %N"
_REASONS = "%20E %N"
_OF_ONE_HOST = {"nodehost", "nodeaddr"}
_SUMMED = {"", "nodes", "nodelist", "cpusstate", "nodesstate"}
_SINFO = Syntax(
    "sinfo",
    {"N": "Node", "h": "noheader", "o": "format", "O": "Format", "p": "partition", "n": "nodes", "t": "states",
     "l": "long", "R": "list-reasons", "s": "summarize", "e": "exact", "a": "all", "r": "responding", "d": "dead"},
    frozenset({"format", "Format", "partition", "nodes", "states"}),
    frozenset({"Node", "noheader", "long", "list-reasons", "summarize", "exact", "all", "responding", "dead"}),
)  # fmt: skip


@click.command(cls=Program)
@pass_session
def sinfo(session: CliSession, words: tuple[str, ...]) -> None:
    """Show hosts, as Slurm's sinfo. The only partition is `main`.

    \b
    Examples:
      sinfo
      sinfo -N -h -o "%N %t %G %C"
    """
    given = _given(words, _SINFO)
    running = session.client.all_jobs(sorted(HOLDS_GPUS))["items"]
    nodes = [node_fields(host, running) for host in session.client.hosts()]
    columns = _columns(given, _NODE_LETTERS, _NODE_NAMES, _node_format(given, nodes))
    nodes = [node for node in nodes if _chosen(node, given)]
    if "Node" not in given:
        merges = [column.field for column in columns if column.field not in _SUMMED]
        states = [] if any(column.field == "nodesstate" for column in columns) else ["state"]
        nodes = merged(nodes, [*merges, *states] if not _OF_ONE_HOST & set(merges) else ["nodelist"])
    nodes = sorted(nodes, key=lambda node: node["nodelist"])
    if "long" in given and "noheader" not in given:
        click.echo(datetime.now().astimezone().strftime("%a %b %d %H:%M:%S %Y"))
    _print(lines(columns, nodes, header="noheader" not in given))


def _node_format(given: Mapping[str, str], nodes: Sequence[Mapping[str, str]]) -> str:
    if "list-reasons" in given:
        return _REASONS
    if "summarize" in given:
        return _SUMMARY
    if "Node" in given:
        width = max([9, *(len(node["nodelist"]) for node in nodes)])
        return _EACH_NODE.replace("%N", f"%{width}N", 1)
    return _NODES_LONG if "long" in given else _NODES


def _chosen(node: Mapping[str, str], given: Mapping[str, str]) -> bool:
    state = node["statecompact"].rstrip("*~")
    states = given["states"].lower().split(",") if "states" in given else None
    down = node["state"].startswith("down")
    return (
        ("partition" not in given or "main" in given["partition"].split(","))
        and ("nodes" not in given or node["nodelist"] in given["nodes"].split(","))
        and (states is None or bool({state, node["state"].rstrip("*~"), node["statecompact"]} & set(states)))
        and ("responding" not in given or not down)
        and ("dead" not in given or down)
        and ("list-reasons" not in given or node["reason"] != "none")
    )


_PRIORITY_LETTERS = {
    "i": ("jobid", "JOBID"), "r": ("partition", "PARTITION"), "u": ("username", "USER"), "Y": ("priority", "PRIORITY"),
    "n": ("name", "NAME"),
}  # fmt: skip
_SPRIO = Syntax(
    "sprio",
    {"j": "jobs", "u": "user", "h": "noheader", "o": "format", "l": "long", "v": "verbose", "p": "partition"},
    frozenset({"jobs", "user", "format", "partition"}),
    frozenset({"noheader", "long", "verbose"}),
)


@click.command(cls=Program)
@pass_session
def sprio(session: CliSession, words: tuple[str, ...]) -> None:
    """Show the priorities of waiting jobs, highest first, as Slurm's sprio.

    The priority is the job's own, 0 to 100. The policy decides by more; `schedulearn show JOB` says why a job waits.

    \b
    Example:
      sprio -u ada
    """
    given = _given(words, _SPRIO)
    usual = "%.15i %.9r %.8u %.10Y" if "long" in given else "%.15i %.9r %.10Y"
    columns = by_letters(given.get("format", usual), _PRIORITY_LETTERS)
    jobs = _queued(session, {**given, "states": "PENDING"})
    rows = [queue_fields(job) for job in sorted(jobs, key=lambda job: (-job["priority"], job["id"]))]
    _print(lines(columns, rows, header="noheader" not in given))
