"""Local environments, which stand for images on a machine without Docker.

An environment is a prefix with `bin/` in it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from schedulearn.scheduler.core.job_image import split_layered
from schedulearn.scheduler.errors import ImageUnavailable, RuntimeFault
from schedulearn.scheduler.runtimes import procfs
from schedulearn.scheduler.runtimes.contract import OWN_ENVIRONMENT, FetchProgress, ListedImage, RegistryLogin
from schedulearn.scheduler.runtimes.process.layers import Layers
from schedulearn.scheduler.runtimes.recipes import FLAVOURS, flavour_of, is_ours, recipe_digest, recipe_path, run_recipe

SCRIPT = "build-env.sh"


class Environments:
    """`Images` of local processes.

    The environments in `named` are used as they are. A name of our own images means the environment of its flavour,
    which is built once. Every other name means `horovod-cpu`. OWN_ENVIRONMENT is the environment of the service's
    Python, which always exists.

    A file below `folder` records the path of a built environment and the digest of its recipe. After an upgrade that
    changes the recipe, the environment counts as missing.
    """

    def __init__(self, folder: Path, named: Mapping[str, Path], layers: Layers) -> None:
        self._folder = folder
        self._layers = layers
        self._named = dict(named)
        self._digest: str | None = None

    def name_for(self, image: str, launcher: str) -> str:
        """Return the environment's name, for `find` and `fetch`, for an image and a launcher.

        A job without a launcher doesn't need Horovod, which takes long to build."""
        if launcher == "none" and image not in self._named and not is_ours(image):
            return OWN_ENVIRONMENT
        return image

    def find(self, image: str) -> Path | None:
        """Return the prefix of the environment, if it exists. Reads one small file."""
        base, layer = split_layered(image)
        if layer:
            below = self.find(base)
            return self._layers.find(image, below) if below is not None else None
        if image == OWN_ENVIRONMENT:
            return Path(sys.prefix)
        if image in self._named:
            path = self._named[image]
            return path if (path / "bin").is_dir() else None
        record = procfs.read_json(self._marker(_flavour(image)))
        try:
            if not record or record["recipe"] != self._recipe():
                return None
        except ImageUnavailable:
            return None
        path = Path(record["path"])
        return path if (path / "bin").is_dir() else None

    def identify(self, image: str) -> tuple[str, ...]:
        return (image,) if self.has(image) else ()

    def listed(self) -> Mapping[str, ListedImage]:
        return {}

    def confirm(self, image: str, login: RegistryLogin | None = None) -> None:
        pass

    def check_login(self, login: RegistryLogin) -> str:
        raise RuntimeFault("local processes pull no images, so they ask no registry")

    def fetch(self, image: str, login: RegistryLogin | None = None) -> Iterator[FetchProgress]:
        """Build the environment and yield progress. Raises ImageUnavailable."""
        if image in self._named:
            if self.find(image) is None:
                raise ImageUnavailable(
                    f"{image} is configured as {self._named[image]}, which has no folder 'bin': "
                    "see the setting environments"
                )
            return
        flavour = _flavour(image)
        # Our own interpreter is new enough; the first python3 on PATH may not be.
        path = yield from run_recipe(
            recipe_path(SCRIPT),
            flavour,
            env={"PYTHON": sys.executable},
            what=f"the local training environment (horovod-{flavour})",
        )
        if not os.path.isdir(os.path.join(path, "bin")):
            raise ImageUnavailable(f"{SCRIPT} created {path!r}, which has no folder 'bin'")
        procfs.write_json(self._marker(flavour), {"recipe": self._recipe(), "path": path})

    def add_layer(self, image: str, requirements: Sequence[str]) -> Iterator[FetchProgress]:
        base, _ = split_layered(image)
        below = self.find(base)
        if below is None:
            raise ImageUnavailable(f"the local environment for {base!r} is missing")
        return self._layers.make(image, below, requirements)

    def has(self, image: str) -> bool:
        return self.find(image) is not None

    def save(self, image: str) -> Iterator[bytes]:
        raise ImageUnavailable(f"{image!r} is a local environment, which can't be copied to another host")

    def load(self, archive: Iterable[bytes]) -> None:
        raise ImageUnavailable("local processes use local environments and can't use images of other hosts")

    def remove(self, image: str) -> None:
        """Remove the layer of an image. Environments stay: they belong to the user, or take long to build."""
        self._layers.remove(image)

    def _marker(self, flavour: str) -> str:
        return str(self._folder / f".environment-{flavour}.json")

    def _recipe(self) -> str:
        if self._digest is None:
            self._digest = recipe_digest()
        return self._digest


def _flavour(image: str) -> str:
    return flavour_of(image) or FLAVOURS[0]
