"""Work for an image that is ended from outside is done again; only a program's own failure is an answer."""

from __future__ import annotations

import io
import random
import re
import signal
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import docker.errors
import pytest
from benches import tools_image, wait_for
from real_faults.engine_proxy import EngineProxy

from schedulearn.scheduler.core.job_image import layer_of, layer_tag, layered
from schedulearn.scheduler.errors import ImageUnavailable, ObjectFault, RuntimeFault
from schedulearn.scheduler.runtimes.docker.api import Engine
from schedulearn.scheduler.runtimes.docker.images import DockerImages, _not_pulled
from schedulearn.scheduler.runtimes.installing import was_cut_short
from schedulearn.scheduler.runtimes.recipes import run_recipe

WANTED = ["einops"]


class Installer:
    """An image whose python3 is a script, and a layer over it."""

    def __init__(self, url: str) -> None:
        self.engine = Engine(url)
        self.images = DockerImages(self.engine)
        self.base = f"schedulearn-test/installer:{uuid.uuid4().hex[:8]}"
        self.layer = layered(self.base, layer_of(WANTED))
        self.container = layer_tag(self.layer).replace("/", "-").replace(":", "-")

    def does(self, script: str) -> None:
        programs = {"python3": f"echo Collecting einops\n{script}", "rm": "exit 0"}
        archive = io.BytesIO(tools_image())
        with tarfile.open(fileobj=archive, mode="a") as tar:
            for name, lines in programs.items():
                content = f"#!/bin/sh\n{lines}\n".encode()
                entry = tarfile.TarInfo(f"usr/bin/{name}")
                entry.size, entry.mode = len(content), 0o755
                tar.addfile(entry, io.BytesIO(content))
        self.engine.api.import_image_from_data(archive.getvalue(), *self.base.split(":"))

    def install(self) -> None:
        for _ in self.images.add_layer(self.layer, WANTED):
            pass

    def close(self) -> None:
        for image in (layer_tag(self.layer), self.base):
            self.images.remove(image)
        self.engine.close()


@pytest.fixture
def installer(engine_url: str) -> Iterator[Installer]:
    made = Installer(engine_url)
    yield made
    made.close()


@pytest.mark.docker
@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL", "rm"])
def test_an_installer_that_was_killed_is_no_reason_to_blame_the_requirements(installer: Installer, how: str) -> None:
    """As an engine does to it that stops."""
    installer.does("sleep 60")

    def end() -> None:
        wait_for(lambda: installer.engine.api.logs(installer.container), "its output", 20)
        if how == "rm":
            installer.engine.api.remove_container(installer.container, force=True)
        else:
            installer.engine.api.kill(installer.container, signal=how)

    timer = Timer(1.0, end)
    timer.start()
    with pytest.raises(RuntimeFault) as caught:
        installer.install()
    timer.join()
    assert not isinstance(caught.value, ImageUnavailable)
    installer.does("true")
    installer.install()
    assert installer.images.has(installer.layer)


@pytest.mark.docker
def test_an_engine_that_is_lost_meanwhile_is_asked_again(installer: Installer, tmp_path: Path, engine_url: str) -> None:
    installer.does("sleep 2")
    with EngineProxy(tmp_path / "engine.sock", Path(engine_url.removeprefix("unix://")), random.Random(0)) as proxy:
        beside = DockerImages(Engine(proxy.url))
        Timer(1.0, proxy.cut).start()
        with pytest.raises(RuntimeFault) as caught:
            for _ in beside.add_layer(installer.layer, WANTED):
                pass
        assert not isinstance(caught.value, ImageUnavailable)
    wait_for(lambda: not installer.engine.api.inspect_container(installer.container)["State"]["Running"], "its end")
    installer.install()
    assert installer.images.has(installer.layer)


@pytest.mark.docker
def test_an_installer_that_fails_by_itself_is_told_with_its_words(installer: Installer) -> None:
    installer.does("echo No matching distribution found; exit 1")
    with pytest.raises(ImageUnavailable, match="No matching distribution found"):
        installer.install()


@pytest.mark.parametrize(
    ("code", "words", "cut"),
    [
        (1, "ERROR: No matching distribution found for einopss", False),
        (2, "", False),
        (127, "python3: not found", False),
        (137, "", True),
        (143, "", True),
        (255, "", True),
        (-9, "", True),
        (1, "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?", True),
        (1, "error during connect: Post ...: EOF", True),
        (1, 'process "/bin/sh -c make" did not complete successfully: exit code: 137', True),
        (1, "The command '/bin/sh -c make' returned a non-zero code: 2", False),
        (0, "context canceled", False),
    ],
)
def test_what_was_cut_short(code: int, words: str, cut: bool) -> None:
    assert was_cut_short(code, words) is cut


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("echo nothing like it >&2; exit 1", ImageUnavailable),
        ("echo 'Cannot connect to the Docker daemon at unix:///x.' >&2; exit 1", RuntimeFault),
        (f"kill -{signal.SIGKILL.value} $$", RuntimeFault),
    ],
)
def test_a_build_whose_engine_ended_is_done_again(tmp_path: Path, script: str, kind: type[RuntimeFault]) -> None:
    (tmp_path / "build.sh").write_text(script)
    with pytest.raises(RuntimeFault) as caught:
        list(run_recipe(tmp_path / "build.sh", env={}, what="the image"))
    assert type(caught.value) is kind


def test_a_pull_that_an_engine_breaks_off_is_done_again() -> None:
    engine = Engine("unix:///nowhere.sock")
    assert type(_not_pulled(engine, "img", "context canceled")) is RuntimeFault
    assert type(_not_pulled(engine, "img", "manifest unknown")) is ImageUnavailable


FULL = [
    "write /var/lib/docker/tmp/GetImageBlob1: no space left on device",
    "OSError: [Errno 28] No space left on device",
    "close /srv/x: disk quota exceeded",
]


@pytest.mark.parametrize("words", FULL)
def test_a_full_disk_fails_nothing_for_good_and_is_told_in_plain_words(tmp_path: Path, words: str) -> None:
    engine = Engine("unix:///gpu2.sock")
    told = "the disk of the Docker Engine at unix:///gpu2.sock is full, so it can't .*: free disk space there"
    pull = _not_pulled(engine, "img", words)
    assert type(pull) is RuntimeFault
    assert re.match(told.replace(".*", "pull 'img'"), str(pull))
    with pytest.raises(ObjectFault, match=told.replace(".*", "start a-task")), engine.errors("start a-task"):
        raise docker.errors.APIError("500 Server Error", explanation=f"Error processing tar file: {words}")
    (tmp_path / "build.sh").write_text(f"echo '{words}' >&2; exit 1")
    with pytest.raises(RuntimeFault) as caught:
        list(run_recipe(tmp_path / "build.sh", env={}, what="the image"))
    assert type(caught.value) is RuntimeFault


@pytest.mark.docker
def test_a_disk_that_is_full_does_not_blame_the_requirements(installer: Installer) -> None:
    installer.does(f"echo '{FULL[1]}'; exit 1")
    with pytest.raises(RuntimeFault, match="is full, so it can't install the requirements on top of") as caught:
        installer.install()
    assert type(caught.value) is RuntimeFault
