"""Image names on a machine without Docker: each stands for a local environment, a prefix with `bin/` in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from schedulearn.scheduler.errors import ImageUnavailable
from schedulearn.scheduler.runtimes import procfs
from schedulearn.scheduler.runtimes.base import ImageProgress
from schedulearn.scheduler.runtimes.recipes import recipe_digest, recipe_path, run_recipe

SCRIPT = "build-env.sh"
WHAT = "the local training environment (horovod-cpu)"


class Environments:
    """`named` are used as they are; every other image name means the `horovod-cpu` environment, built once.

    Where it was built is kept in the file `marker`, together with what it was built from: an upgrade that changes the
    recipe makes it missing again.
    """

    def __init__(self, marker: Path, named: Mapping[str, Path]) -> None:
        self._marker = marker
        self._named = dict(named)
        self._digest: str | None = None

    def find(self, image: str) -> Path | None:
        """The prefix, if it is there now. Reads one small file."""
        if image in self._named:
            path = self._named[image]
            return path if (path / "bin").is_dir() else None
        record = procfs.read_json(str(self._marker))
        try:
            if not record or record["recipe"] != self._recipe():
                return None
        except ImageUnavailable:
            return None
        path = Path(record["path"])
        return path if (path / "bin").is_dir() else None

    def fetch(self, image: str) -> Iterator[ImageProgress]:
        """Makes the environment and yields the progress. Raises ImageUnavailable."""
        if image in self._named:
            if self.find(image) is None:
                raise ImageUnavailable(f"{image} is configured as {self._named[image]}, which has no folder 'bin'")
            return
        # Our own interpreter is new enough; the first python3 of PATH need not be.
        path = yield from run_recipe(recipe_path(SCRIPT), env={"PYTHON": sys.executable}, what=WHAT)
        if not os.path.isdir(os.path.join(path, "bin")):
            raise ImageUnavailable(f"{SCRIPT} made {path!r}, which has no folder 'bin'")
        procfs.write_json(str(self._marker), {"recipe": self._recipe(), "path": path})

    def _recipe(self) -> str:
        if self._digest is None:
            self._digest = recipe_digest()
        return self._digest
