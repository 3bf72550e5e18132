"""Commands `hosts show` and `hosts gpu`, and names of GPUs."""

from __future__ import annotations

import click

from schedulearn.api.cli.common import Cell, CliSession, Command, Group, clean, pass_session, print_json, print_table
from schedulearn.api.cli.times import parse_seconds, show_time
from schedulearn.api.client.client import Json


def named(gpu: Json) -> str:
    """Return a name such as `GPU 3 (0000:3B:00.0)`.

    An index alone is ambiguous: it may change with a reboot, and NVML's indices are not CUDA's."""
    return f"GPU {gpu['index']}" + (f" ({short_bus_id(gpu['pci'])})" if gpu["pci"] else "")


def short_bus_id(pci: str) -> str:
    """Return a PCI bus ID as `lspci -D` and sysfs write it, with four digits of the domain if these suffice."""
    return pci[4:] if len(pci) == len("00000000:3B:00.0") and pci.startswith("0000") else pci


@click.command("show", cls=Command)
@click.argument("host")
@pass_session
def show(session: CliSession, host: str) -> None:
    """Show the GPUs of a host, their state and their jobs.

    It also shows PCI bus ID, NUMA node and NVLink group.

    \b
    Example:
      schedulearn hosts show gpu2
    """
    found = session.client.host(host)
    if session.as_json:
        print_json(found)
        return
    headers = ("GPU", "PCI", "NUMA", "NVLINK", "TYPE", "STATE", "JOBS", "UUID", "WHY")
    print_table(session, headers, list(map(_row, found["gpus"])))


def _row(gpu: Json) -> list[Cell]:
    state = gpu["state"]
    why = gpu["fault"] or gpu["unwatched"] or gpu["occupied_by"] or _closed(gpu)
    return [
        str(gpu["index"]),
        short_bus_id(gpu["pci"]) or "-",
        _number(gpu["numa"]),
        _number(gpu["island"]),
        gpu["type"],
        (state, "green" if state in ("free", "used") else "red"),
        ",".join(gpu["jobs"]) or "-",
        gpu["uuid"],
        clean(why),
    ]


def _closed(gpu: Json) -> str:
    if not gpu["cordoned"]:
        return ""
    return f"draining until {show_time(gpu['drain_until'])}" if gpu["drain_until"] else "cordoned"


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


@click.group("gpu", cls=Group)
def gpu() -> None:
    """Cordon, drain, reset and return single GPUs, by index or UUID."""


@gpu.command("cordon")
@click.argument("host")
@click.argument("index")
@pass_session
def cordon(session: CliSession, host: str, index: str) -> None:
    """Cordon a GPU: its job continues, no other job starts on it.

    A drain of the GPU ends.

    \b
    Example:
      schedulearn hosts gpu cordon gpu2 3
    """
    _tell(session, index, session.client.cordon_gpu(host, index))


@gpu.command("drain")
@click.argument("host")
@click.argument("index")
@click.option(
    "--deadline",
    default="1h",
    metavar="TIME",
    help="Time until a rigid job is stopped too: 90, 30m, 2h, 1d.  [default: 1h]",
)
@pass_session
def drain(session: CliSession, host: str, index: str, deadline: str) -> None:
    """Drain a GPU: no new jobs start on it, its jobs leave.

    An elastic job leaves now. Other jobs run until the deadline, and then start again elsewhere.

    \b
    Example:
      schedulearn hosts gpu drain gpu2 3 --deadline 30m
    """
    _tell(session, index, session.client.drain_gpu(host, index, deadline_of(deadline)))


@gpu.command("reset")
@click.argument("host")
@click.argument("index")
@pass_session
def reset(session: CliSession, host: str, index: str) -> None:
    """Reset an idle GPU with nvidia-smi, and forget its errors.

    Drain the GPU first.

    \b
    Example:
      schedulearn hosts gpu reset gpu2 3
    """
    _tell(session, index, session.client.reset_gpu(host, index))


@gpu.command("return")
@click.argument("host")
@click.argument("index")
@pass_session
def return_gpu(session: CliSession, host: str, index: str) -> None:
    """Return a cordoned, drained or unhealthy GPU to service.

    A GPU that was removed from the host is forgotten.

    \b
    Example:
      schedulearn hosts gpu return gpu2 3
    """
    _tell(session, index, session.client.return_gpu(host, index))


def deadline_of(text: str) -> float:
    """Return the seconds of `--deadline`."""
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise click.UsageError(f"--deadline: {error}") from error


def _tell(session: CliSession, index: str, host: Json) -> None:
    if session.as_json:
        print_json(host)
        return
    found = next((each for each in host["gpus"] if index in (str(each["index"]), each["uuid"])), None)
    if found is None:
        click.echo(f"GPU {clean(index)} of {clean(host['id'])} is forgotten until it is seen again")
    else:
        click.echo(f"{named(found)} of {clean(host['id'])}: {_closed(found) or found['state']}")
