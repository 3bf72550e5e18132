"""A device that takes a fixed time for each sample, in place of a GPU that is not there.

A worker holds its GPU's lock while the device works, so that jobs that share a GPU take turns, as on a real one. The
processor is free meanwhile. Without DEVICE_SECONDS_A_SAMPLE there is no such device, and nothing waits.
"""

import atexit
import fcntl
import os
import time


class Device:
    def __init__(self, local_rank):
        self._seconds = float(os.environ.get("DEVICE_SECONDS_A_SAMPLE") or 0)
        if not self._seconds:
            return
        gpus = os.environ["NVIDIA_VISIBLE_DEVICES"].split(",")
        path = os.path.join(os.environ["DEVICE_FOLDER"], gpus[local_rank % len(gpus)])
        self._lock = open(path, "w")  # noqa: SIM115
        self._busy = 0.0
        atexit.register(self._write_down, f"{path}.busy")

    def work(self, samples):
        """As long as so many samples take."""
        if self._seconds:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            time.sleep(samples * self._seconds)
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            self._busy += samples * self._seconds

    def _write_down(self, path):
        with open(path, "a") as file:
            file.write(f"{self._busy}\n")
