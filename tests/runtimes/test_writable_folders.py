"""Ways from a job that may write a folder of its host to root there, or to somebody else: each tried in a real one."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
import tarfile
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benches import Bench, Program

from schedulearn.scheduler.code.archive import Entry, Kind, write_archive
from schedulearn.scheduler.core.task import RunAs
from schedulearn.scheduler.errors import InvalidError, RuntimeFault, StartRefused
from schedulearn.scheduler.runtimes.docker.api import Engine
from schedulearn.scheduler.runtimes.paths import resolve

pytestmark = pytest.mark.docker

ATTACKS = (Path(__file__).parents[1] / "support" / "attacks" / "writable_folder.py").read_text()
PYTHON = "/opt/venv/bin/python"
ADA = RunAs("ada", 4321, 4322, (4323, 4324))
OTHER = 5555
HOME = "/data/home"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ada's, with things of others in it."""
    home = tmp_path / "home"
    (home / "others-folder").mkdir(parents=True)
    for path in (home / "others", home / "others-folder" / "kept"):
        path.write_text("secret")
        path.chmod(0o600)
        os.chown(path, OTHER, OTHER)
    os.chown(home / "others-folder", OTHER, OTHER)
    shutil.copyfile("/bin/sh", home / "old-setuid")
    (home / "old-setuid").chmod(0o4755)
    os.chown(home, ADA.uid, ADA.gid)
    return home


def mounts(folder: Path) -> dict[str, Any]:
    return {"mounts": {HOME: str(folder)}, "writable": [HOME], "run_as": ADA}


def assert_nothing_of_others_was_made(folder: Path) -> None:
    """As it looks to the host: what the job made is Ada's, and what there was is as before."""
    before = {"others": OTHER, "others-folder": OTHER, "kept": OTHER, "old-setuid": 0, "home": ADA.uid}
    for path in (folder, *folder.rglob("*")):
        found = path.lstat()
        assert found.st_uid == before.get(path.name, ADA.uid), path
        if path.name not in before:
            assert found.st_gid == ADA.gid
            assert stat.S_ISREG(found.st_mode)
    assert (folder / "others").read_text() == (folder / "others-folder" / "kept").read_text() == "secret"


def test_no_way_leads_to_root_or_to_another(containers: Bench, folder: Path, worker_image: str) -> None:
    keep_on = f"{ATTACKS}\nimport time; time.sleep(100)"
    environment = {"FOLDER": HOME}
    task = containers.start(Program((PYTHON, "-c", keep_on)), image=worker_image, env=environment, **mounts(folder))
    containers.wait_for_output(task, b"attacks")
    found = [json.loads(containers.read(task).decode().splitlines()[-1])]
    again = ["env", "MARK=terminal", PYTHON, "-c", ATTACKS]
    with closing(containers.runtime.terminals.open(task, again, None)) as terminal:
        said = b"".join(iter(lambda: (terminal.read() or (0, b""))[1], b""))
    found.append(json.loads(said.decode().splitlines()[-1]))
    for each in found:
        assert each["ids"] == [ADA.uid, ADA.uid, ADA.gid, ADA.gid, sorted({ADA.gid, *ADA.gids})]
        assert set(each["capabilities"].values()) == {0}
        assert each["no_new_privileges"] is True
        open_ways = {name for name, outcome in each["attacks"].items() if outcome in ("open", "it crashed")}
        assert open_ways == set(), each
        assert len(each["attacks"]) == 20
    assert {path.name for path in folder.iterdir()} >= {"job-file", "terminal-file", "job-own-setuid"}
    assert_nothing_of_others_was_made(folder)


def test_its_own_folders_and_its_code_are_its_own(
    containers: Bench, folder: Path, worker_image: str, tmp_path: Path
) -> None:
    archive = code(tmp_path, Entry("train.py", Kind.FILE, 5, open=lambda: io.BytesIO(b"hello")))
    script = (
        'set -e; test "$(cat train.py)" = hello; echo more >> train.py; mkdir new; '
        f'{PYTHON} -c "import schedulearn.worker";'
        ' for to in "$SCHEDULEARN_CHECKPOINT_DIR" "$SCHEDULEARN_OUTPUT_DIR" "$HOME" /tmp . /data/home; do'
        ' echo "$(cat "$to/count" 2>/dev/null)x" > "$to/count"; done; cat "$SCHEDULEARN_CHECKPOINT_DIR/count";'
        ' echo "$USER $(id -u)"'
    )
    job = uuid.uuid4().hex[:10]
    for attempt, count in ((1, b"x"), (2, b"xx")):  # the second one finds what the first one left
        changes = {"job_id": job, "image": worker_image, "code": str(archive), **mounts(folder)}
        task = containers.start(Program(("sh", "-c", script)), attempt=attempt, **changes)
        end = containers.wait_for_end(task)
        assert (end.exit_code, containers.read(task, follow=True)) == (0, count + b"\nada 4321\n")
        containers.runtime.remove(task)
    # Moved to another engine: what comes there is as it was.
    moved = list(containers.runtime.checkpoints.save(job))
    containers.runtime.checkpoints.drop(job)
    containers.runtime.checkpoints.load(job, moved)
    task = containers.start(Program(("sh", "-c", script)), attempt=3, **changes)
    assert (containers.wait_for_end(task).exit_code, containers.read(task, follow=True)) == (0, b"xxx\nada 4321\n")
    assert (folder / "count").read_text() == "xxx\n"


def test_an_attempt_keeps_its_ids_when_those_of_its_user_change(
    containers: Bench, folder: Path, worker_image: str
) -> None:
    """What runs, what joins it and terminals in it stay who they were; the next attempt is who the user is then."""
    became = replace(ADA, uid=5432, gid=5433, gids=(5434,))
    script = (
        'id -u; id -G; umask 022; echo one > "$SCHEDULEARN_CHECKPOINT_DIR/open"; '
        'umask 077; echo one > "$SCHEDULEARN_CHECKPOINT_DIR/closed"; echo home > /data/home/own; echo done; sleep 100'
    )
    job, ids = uuid.uuid4().hex[:10], "4321\n4322 4323 4324\n"
    changes = {"job_id": job, "image": worker_image, **mounts(folder)}
    first = containers.start(Program(("sh", "-c", script)), **changes)
    containers.wait_for_output(first, b"done")
    changes["run_as"] = became
    joins = ["sh", "-c", 'id -u; id -G; echo two > "$SCHEDULEARN_CHECKPOINT_DIR/closed"; echo done; sleep 100']
    second = containers.start(Program(tuple(joins)), rank=1, **changes)
    containers.wait_for_output(second, b"done")
    assert [containers.read(task).decode() for task in (first, second)] == [f"{ids}done\n"] * 2
    with closing(
        containers.runtime.terminals.open(first, ["sh", "-c", "id -u; id -G; echo x >> /data/home/own"], None)
    ) as each:
        said = b"".join(iter(lambda: (each.read() or (0, b""))[1], b""))
    assert said.decode().replace("\r", "") == ids
    for task in (first, second):
        containers.runtime.stop(task, 0)
        containers.wait_for_end(task)
        containers.runtime.remove(task)

    script = (
        'id -u; id -G; cd "$SCHEDULEARN_CHECKPOINT_DIR"; cat open; cat closed /data/home/own || echo refused; '
        "echo two > new && mv new open && rm closed; cat open; echo y > /data/home/own || echo refused"
    )
    third = containers.start(Program(("sh", "-c", f"( {script} ) 2>/dev/null")), attempt=2, **changes)
    assert containers.wait_for_end(third).exit_code == 0
    said = containers.read(third, follow=True)
    assert said.decode() == "5432\n5433 5434\none\nrefused\ntwo\nrefused\n"
    assert (folder / "own").read_text() == "home\nx\n"
    assert_nothing_of_others_was_made(folder)


def test_a_folder_in_place_of_tmp_holds_nothing_of_ours(containers: Bench, folder: Path, worker_image: str) -> None:
    before = sorted(path.name for path in folder.iterdir())
    task = containers.start(
        Program(("true",)), image=worker_image, mounts={"/tmp": str(folder)}, writable=["/tmp"], run_as=ADA
    )
    assert containers.wait_for_end(task).exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == before


def test_nothing_is_left_of_the_volume_that_held_the_code(
    containers: Bench, folder: Path, tmp_path: Path, docker_url: str, worker_image: str
) -> None:
    archive = code(tmp_path, Entry("train.py", Kind.FILE, 5, open=lambda: io.BytesIO(b"hello")))
    task = containers.start(Program(("true",)), image=worker_image, code=str(archive), **mounts(folder))
    containers.wait_for_end(task)
    with closing(Engine(docker_url)) as engine:
        [volume] = [m["Name"] for m in engine.api.inspect_container(task)["Mounts"] if m["Destination"] == "/workspace"]
        containers.runtime.remove(task)
        assert volume not in {each["Name"] for each in engine.api.volumes()["Volumes"]}


def test_a_link_among_its_outputs_shows_no_file_that_it_may_not_read(
    containers: Bench, folder: Path, worker_image: str
) -> None:
    """The engine, which is root, reads the files for those who ask the service."""
    script = f'ln -s {HOME} "$SCHEDULEARN_OUTPUT_DIR/link"; echo done; sleep 100'
    task = containers.start(Program(("sh", "-c", script)), image=worker_image, **mounts(folder))
    containers.wait_for_output(task, b"done")
    with containers.runtime.outputs.view(task.split("-")[1]) as view:
        assert view is not None
        assert view.stat("link/others") is None
        with pytest.raises(InvalidError, match="outside of the job's folders"):
            resolve(("link", "others"), view.stat, view.seen_at)


@pytest.fixture
def hostile(docker_url: str, worker_image: str) -> Iterator[Any]:
    """Makes images over the worker image, from the content of some files and links, and the settings."""
    made = []
    with closing(Engine(docker_url)) as engine:

        def make(links: dict[str, str], files: dict[str, str] | None = None, **config: Any) -> str:
            container = engine.api.create_container(worker_image, ["true"])["Id"]
            buffer = io.BytesIO()
            with tarfile.open(fileobj=buffer, mode="w") as tar:
                for path, target in links.items():
                    entry = tarfile.TarInfo(path)
                    entry.type, entry.linkname = tarfile.SYMTYPE, target
                    tar.addfile(entry)
                for path, text in (files or {}).items():
                    entry = tarfile.TarInfo(path)
                    entry.size, entry.mode = len(text), 0o644
                    tar.addfile(entry, io.BytesIO(text.encode()))
            engine.api.put_archive(container, "/", buffer.getvalue())
            name = f"schedulearn-test/hostile-{uuid.uuid4().hex[:8]}"
            settings = engine.api.inspect_image(worker_image)["Config"]
            engine.api.commit(container, repository=name, tag="1", conf={**settings, **config})
            engine.api.remove_container(container)
            made.append(f"{name}:1")
            return made[-1]

        yield make
        for image in made:
            engine.api.remove_image(image, force=True)


def code(tmp_path: Path, *entries: Entry) -> Path:
    path = tmp_path / "code.tar"
    with path.open("wb") as target:
        write_archive(entries, target)
    return path


@pytest.mark.parametrize(
    ("links", "config"),
    [
        ({"outputs": HOME}, {}),
        ({"schedulearn": f"{HOME}/others-folder"}, {}),
        ({"one": "data", "workspace": "one/home"}, {}),
        ({}, {"WorkingDir": f"{HOME}/made/by/root"}),
        ({}, {"Volumes": {f"{HOME}/volume": {}}}),
        ({"away": HOME}, {"Volumes": {"/away/volume": {}}}),
    ],
    ids=["outputs", "checkpoints", "code", "working directory", "volume", "volume behind a link"],
)
def test_an_image_leads_the_engine_nowhere_into_the_folder(
    containers: Bench, folder: Path, hostile: Any, tmp_path: Path, links: dict[str, str], config: dict[str, Any]
) -> None:
    before = sorted(str(path) for path in folder.rglob("*"))
    archive = code(tmp_path, Entry("x", Kind.FILE, 2, open=lambda: io.BytesIO(b"hi")))
    with pytest.raises(StartRefused, match=f"in {HOME}, which the job may write"):
        containers.start(Program(("true",)), image=hostile(links, **config), code=str(archive), **mounts(folder))
    assert sorted(str(path) for path in folder.rglob("*")) == before
    assert_nothing_of_others_was_made(folder)


def test_code_does_not_follow_the_links_of_an_image_into_the_folder(
    containers: Bench, folder: Path, hostile: Any, tmp_path: Path
) -> None:
    image = hostile({"workspace/sub": f"{HOME}/others-folder"})
    archive = code(tmp_path, Entry("sub/kept", Kind.FILE, 5, executable=True, open=lambda: io.BytesIO(b"taken")))
    with pytest.raises(RuntimeFault, match="sub/kept: no such file"):
        containers.start(Program(("true",)), image=image, code=str(archive), **mounts(folder))
    assert_nothing_of_others_was_made(folder)


def test_an_image_does_not_say_whose_a_uid_is(containers: Bench, folder: Path, hostile: Any) -> None:
    files = {
        "etc/passwd": f"{ADA.uid}:x:0:0::/:/bin/sh\nroot:x:{ADA.uid}:0::/:/bin/sh\n",
        "etc/group": f"root:x:0:root,{ADA.uid}\nanother:x:{ADA.gid}:\n",
    }
    task = containers.start(
        Program((PYTHON, "-c", ATTACKS)), image=hostile({}, files), env={"FOLDER": HOME}, **mounts(folder)
    )
    assert containers.wait_for_end(task).exit_code == 0
    found = json.loads(containers.read(task, follow=True).decode().splitlines()[-1])
    assert found["ids"] == [ADA.uid, ADA.uid, ADA.gid, ADA.gid, sorted({ADA.gid, *ADA.gids})]
    assert_nothing_of_others_was_made(folder)


@pytest.mark.parametrize(
    ("links", "files"),
    [
        ({}, {"etc/group": f"root:x:0:\n{ADA.gids[0]}:x:0:\n"}),
        ({}, {"etc/group": f" {ADA.gid} :x:0:\nroot:x:0:\n"}),
        ({"etc/group": "gruppe"}, {"etc/gruppe": f"{ADA.gid}:x:0:\n"}),
    ],
    ids=["further group", "group", "behind a link"],
)
def test_an_image_does_not_say_which_group_a_number_is(
    containers: Bench, folder: Path, hostile: Any, links: dict[str, str], files: dict[str, str]
) -> None:
    """The engine looks for a group of that name before it takes it for a number: the job would have root's."""
    with pytest.raises(StartRefused, match="/etc/group"):
        containers.start(Program(("true",)), image=hostile(links, files), **mounts(folder))


def test_an_image_with_a_user_of_its_own_keeps_checkpoints_outputs_and_code(
    containers: Bench, hostile: Any, tmp_path: Path
) -> None:
    archive = code(tmp_path, Entry("train.py", Kind.FILE, 2, open=lambda: io.BytesIO(b"hi")))
    script = 'id -u; for to in "$SCHEDULEARN_CHECKPOINT_DIR" "$SCHEDULEARN_OUTPUT_DIR" .; do echo x > "$to/new"; done'
    task = containers.start(Program(("sh", "-ec", script)), image=hostile({}, User="1234"), code=str(archive))
    assert (containers.wait_for_end(task).exit_code, containers.read(task, follow=True)) == (0, b"1234\n")
