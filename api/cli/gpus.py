"""hosts show, and how a GPU is named beside its index."""

from __future__ import annotations

import click

from schedulearn.api.cli.common import Cell, Command, Session, clean, pass_session, print_json, print_table
from schedulearn.api.client.client import Json


def named(gpu: Json) -> str:
    """`GPU 3 (0000:3B:00.0)`: indices may change with a reboot, and NVML's are not CUDA's."""
    return f"GPU {gpu['index']}" + (f" ({short_bus_id(gpu['pci'])})" if gpu["pci"] else "")


def short_bus_id(pci: str) -> str:
    """As `lspci -D` and sysfs write it, with four digits of the domain where these are enough."""
    return pci[4:] if len(pci) == len("00000000:3B:00.0") and pci.startswith("0000") else pci


@click.command("show", cls=Command)
@click.argument("host")
@pass_session
def show(session: Session, host: str) -> None:
    """Shows the GPUs of a host: PCI bus id, NUMA node, NVLink group, state, and who has them.

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
    why = gpu["fault"] or gpu["unwatched"] or gpu["occupied_by"]
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


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
