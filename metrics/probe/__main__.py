"""Probe program that reports the load of a machine and its GPUs.

It writes one line of JSON a second to stdout; readings.py describes them. The service runs it in a container on each of
its hosts and follows its log (docs/hosts.md). It opens no port, takes no input and needs nothing but NVML. It queries
NVML in child processes (watchdog.py), which run this program too. With `child` one reports until it ends, with `once`
it reports once which GPUs there are.
"""

from __future__ import annotations

import os
import sys
from typing import Iterable

from schedulearn.metrics.probe import watchdog
from schedulearn.metrics.probe.readings import Reading, to_line
from schedulearn.metrics.probe.sampling import VERSION_VARIABLE


def main(arguments: list[str]) -> int:
    version = os.environ.get(VERSION_VARIABLE, "")
    try:
        if arguments:
            _ask(version, *arguments)
        else:
            _tell(watchdog.Watchdog(version, machine=True).readings())
    except BrokenPipeError:  # the reader of stdout is gone
        os._exit(1)
    return 1


def _ask(version: str, task: str, left_out: str, machine: str) -> None:
    """Query NVML. Before each query, stdout names the GPU."""
    from schedulearn.metrics.probe.machine import read_machine
    from schedulearn.metrics.probe.nvml import NvmlReader
    from schedulearn.metrics.probe.sampling import readings

    def asking(number: int, uuid: str = "") -> None:
        _write(watchdog.marker(number, uuid))

    reader = NvmlReader(version, watchdog.read_left_out(left_out), asking)
    if task == "once":
        _write(to_line(reader.inventory()) + "\n")
        return
    # The disk below a container's own files is that of its engine's data.
    _tell(readings(reader, machine=lambda: read_machine("/") if machine == "1" else None))


def _tell(readings: Iterable[Reading]) -> None:
    for reading in readings:
        _write(to_line(reading) + "\n")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
