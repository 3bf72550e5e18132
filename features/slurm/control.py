"""Program `scontrol`: details of jobs and hosts, lists of hosts, hold and release."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence

import click

from schedulearn.api.cli.common import CliSession, clean, pass_session
from schedulearn.api.client.client import ClientError, Json
from schedulearn.features.slurm.fields import (
    PARTITION,
    clock,
    cpus_of,
    dependency,
    exit_code,
    hosts_of,
    instant,
    megabytes,
    node_fields,
    queue_fields,
    tres,
)
from schedulearn.features.slurm.hostlist import compress, expand
from schedulearn.features.slurm.numbers import find_jobs, number_of
from schedulearn.features.slurm.options import Syntax, parse
from schedulearn.features.slurm.programs import Program
from schedulearn.scheduler.core.states import HOLDS_GPUS, UNFINISHED

_SYNTAX = Syntax(
    "scontrol",
    {"o": "oneliner", "d": "details", "Q": "quiet", "v": "verbose", "a": "all"},
    frozenset(),
    frozenset({"oneliner", "details", "quiet", "verbose", "all"}),
)
_ELSEWHERE = {
    "update": "schedulearn prio JOB N, or schedulearn hosts cordon HOST",
    "requeue": "schedulearn resubmit JOB",
    "suspend": "schedulearn pause JOB",
    "resume": "schedulearn resume JOB",
    "top": "schedulearn prio JOB 100",
    "ping": "schedulearn doctor",
}


@click.command(cls=Program)
@pass_session
def scontrol(session: CliSession, words: tuple[str, ...]) -> int:
    """Show or change jobs and hosts, as Slurm's scontrol.

    It has `show job [N]`, `show node [HOST]`, `show partition`, `show hostnames LIST`, `show hostlist HOSTS`, `hold N`
    and `release N`.

    \b
    Examples:
      scontrol show job 29876543210987
      scontrol show hostnames "gpu[1-3]"
      scontrol hold 29876543210987
    """
    options, rest = parse(words, _SYNTAX)
    given = dict(options)
    if rest[:1] == ["show"] and len(rest) > 1:
        show = _SHOWN.get(rest[1])
        if show is None:
            raise ValueError(f"invalid entity: {rest[1]} for keyword: show: write {', '.join(sorted(_SHOWN))}")
        trailing, names = parse(rest[2:], _SYNTAX)
        _print(show(session, names), oneliner="oneliner" in given or ("oneliner", "") in trailing)
        return 0
    if rest[:1] and rest[0] in ("hold", "uhold", "release") and len(rest) > 1:
        return _change(session, rest[0], rest[1:])
    if rest and rest[0] in _ELSEWHERE:
        raise ValueError(f"{rest[0]} is not here: use `{_ELSEWHERE[rest[0]]}`")
    raise ValueError(f"invalid keyword: {' '.join(rest) or 'none'}: write show, hold or release")


def _change(session: CliSession, what: str, numbers: Sequence[str]) -> int:
    """Hold or release jobs, each on its own, as Slurm does."""
    failed = False
    for job in find_jobs(session, [number.removeprefix("jobid=") for number in numbers]):
        try:
            (session.client.release if what == "release" else session.client.hold)(job)
        except ClientError as error:
            failed = True
            click.echo(f"scontrol: error: job {number_of(job.id)}: {clean(str(error))}", err=True)
    return int(failed)


Record = list[list[tuple[str, str]]]
"""Lines of `Key=Value` pairs; a pair without a key is a plain line."""


def _print(records: Iterable[Record], *, oneliner: bool) -> None:
    for record in records:
        texts = [" ".join(f"{key}={value}" if key else value for key, value in line) for line in record]
        if len(record) == 1:
            click.echo(clean(texts[0]))
        elif oneliner:
            click.echo(clean(" ".join(texts)))
        else:
            click.echo("\n   ".join(map(clean, texts)) + "\n")


def _show_jobs(session: CliSession, names: Sequence[str]) -> Iterable[Record]:
    if names:
        found: list[Json] = list(find_jobs(session, names))
    else:
        found = session.client.all_jobs(UNFINISHED)["items"]
        if not found:
            return [[[("", "No jobs in the system")]]]
    return [_job(job) for job in found]


def _job(job: Json) -> Record:
    """Return a job as `scontrol show job` does."""
    fields = queue_fields(job)
    cpus, gpus = cpus_of(job), job["required_gpus"]
    ran = f"{megabytes(job['memory'])}" if job["memory"] else "0"
    resources = f"cpu={cpus}" + (f",mem={ran}" if job["memory"] else "") + ",node=1,billing=" + str(cpus)
    resources += f",gres/gpu={gpus}" if gpus else ""
    array = (
        [("ArrayJobId", fields["arrayjobid"]), ("ArrayTaskId", fields["arraytaskid"])]
        if fields["arraytaskid"] != "N/A"
        else []
    )
    limit = job["max_duration"]
    made: Record = [
        [("JobId", fields["jobid"]), *array, ("JobName", fields["name"])],
        [("UserId", f"{fields['username']}"), ("MCS_label", "N/A")],
        [
            ("Priority", "0" if job["held_at"] else fields["priority"]),
            ("Account", fields["account"]),
            ("QOS", "(null)"),
        ],
        [
            ("JobState", fields["state"]),
            ("Reason", fields["reason"]),
            ("Dependency", dependency(job) or "(null)"),
        ],
        [("Requeue", str(int(job["preemptible"]))), ("Restarts", str(job["restarts"])), ("ExitCode", exit_code(job))],
        [
            ("RunTime", clock(job["run_seconds"], hours=True)),
            ("TimeLimit", clock(limit, hours=True) if limit else "UNLIMITED"),
        ],
        [("SubmitTime", fields["submittime"]), ("EligibleTime", instant(job["start_after"], unknown="Unknown"))],
        [
            ("StartTime", instant(job["started_at"], unknown="Unknown")),
            ("EndTime", instant(job["finished_at"], unknown="Unknown")),
        ],
        [("Partition", PARTITION)],
        [("NodeList", compress(hosts_of(job)) or "(null)")],
        [("NumNodes", fields["numnodes"]), ("NumCPUs", str(cpus)), ("NumTasks", job["env"].get("SLURM_NTASKS", "1"))],
        [("TRES", resources)],
        [("MinMemoryNode", megabytes(job["memory"]))],
    ]
    if gpus:
        made.append([("TresPerNode", tres(job).replace("gres/gpu", "gres:gpu"))])
    return made


def _show_nodes(session: CliSession, names: Sequence[str]) -> Iterable[Record]:
    hosts = session.client.hosts()
    wanted = {host for name in names for host in expand(name)}
    if missing := sorted(wanted - {host["id"] for host in hosts}):
        raise ClientError(f"Node {missing[0]} not found")
    running = session.client.all_jobs(sorted(HOLDS_GPUS))["items"]
    return [_node(node_fields(host, running)) for host in hosts if not wanted or host["id"] in wanted]


def _node(fields: dict[str, str]) -> Record:
    taken, *_, total = fields["cpusstate"].split("/")
    return [
        [("NodeName", fields["nodelist"])],
        [("CPUAlloc", taken), ("CPUEfctv", total), ("CPUTot", total)],
        [("AvailableFeatures", fields["features"])],
        [("Gres", fields["gres"])],
        [("NodeAddr", fields["nodeaddr"]), ("NodeHostName", fields["nodehost"]), ("Version", fields["version"])],
        [("RealMemory", fields["memory"])],
        [("State", fields["state"].upper())],
        [("Partitions", PARTITION)],
        [("GresUsed", fields["gresused"])],
        *([[("Reason", fields["reason"])]] if fields["reason"] != "none" else []),
    ]


def _show_partitions(session: CliSession, names: Sequence[str]) -> Iterable[Record]:
    if set(names) - {PARTITION}:
        raise ClientError(f"Partition {names[0]} not found: there is only {PARTITION}")
    hosts = session.client.hosts()
    return [
        [
            [("PartitionName", PARTITION)],
            [("Default", "YES"), ("MaxTime", "UNLIMITED"), ("State", "UP")],
            [("Nodes", compress(host["id"] for host in hosts) or "(null)"), ("TotalNodes", str(len(hosts)))],
        ]
    ]


def _show_hostnames(session: CliSession, names: Sequence[str]) -> Iterable[Record]:
    text = ",".join(names) or os.environ.get("SLURM_JOB_NODELIST", "")
    if not text:
        raise ValueError("host list is empty")
    return [[[("", host)]] for host in expand(text)]


def _show_hostlist(session: CliSession, names: Sequence[str]) -> Iterable[Record]:
    text = sys.stdin.read(1 << 20).replace("\n", ",") if list(names) == ["-"] else ",".join(names)
    return [[[("", compress(expand(text)))]]]


_SHOWN: dict[str, Callable[[CliSession, Sequence[str]], Iterable[Record]]] = {
    "job": _show_jobs,
    "jobs": _show_jobs,
    "node": _show_nodes,
    "nodes": _show_nodes,
    "partition": _show_partitions,
    "partitions": _show_partitions,
    "hostnames": _show_hostnames,
    "hostname": _show_hostnames,
    "hostlist": _show_hostlist,
}
