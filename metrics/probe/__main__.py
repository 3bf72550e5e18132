"""Tells what the GPUs of this machine do, and how busy it is itself: one line of JSON a second on stdout, each
described in readings.py.

The service runs it in a container on each of its hosts and follows its log (docs/hosts.md). It opens no port, takes no
input and needs nothing but NVML.
"""

from __future__ import annotations

import os
import sys

from schedulearn.metrics.probe.machine import read_machine
from schedulearn.metrics.probe.nvml import NvmlReader
from schedulearn.metrics.probe.readings import to_line
from schedulearn.metrics.probe.sampling import VERSION_VARIABLE, readings


def main() -> int:
    reader = NvmlReader(os.environ.get(VERSION_VARIABLE, ""))
    # The disk below a container's own files is that of its engine's data.
    for reading in readings(reader, machine=lambda: read_machine("/")):
        sys.stdout.write(to_line(reading) + "\n")
        sys.stdout.flush()
    return 1


if __name__ == "__main__":
    sys.exit(main())
