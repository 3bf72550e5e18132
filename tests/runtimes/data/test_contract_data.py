"""The contract of `SharedData`, held against every engine: whole or not there, read-only, shared by tasks."""

from __future__ import annotations

import io
import tarfile
import uuid
from collections.abc import Iterator

import docker.errors
import pytest
from benches import SLEEPER, Bench, shell
from fakes.runtime import FakeRuntime

from schedulearn.scheduler.core.needs import outputs_key
from schedulearn.scheduler.errors import ImageUnavailable, RuntimeFault
from schedulearn.scheduler.runtimes.docker.api import Engine
from schedulearn.scheduler.runtimes.docker.storage.shared_data import DataVolumes
from schedulearn.scheduler.runtimes.docker.volumes import DATA, PARTS


def tar(**files: str) -> list[bytes]:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as out:
        for name, text in files.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size, info.mode = len(text.encode()), 0o644
            out.addfile(info, io.BytesIO(text.encode()))
    return [target.getvalue()]


def new_key() -> str:
    return f"sha256:{uuid.uuid4().hex}{uuid.uuid4().hex}"


def seen(bench: Bench, key: str, script: str, **fields: object) -> str:
    """What a task prints that has the data at /data/faces; `$D` is where it sees it."""
    where = bench.runtime.data.seen_at(key, "/data/faces")
    task = bench.start(shell(f'D="{where}"; {script}'), data={"/data/faces": key}, **fields)
    bench.wait_for_end(task)
    return bench.read(task, follow=True).decode()


def file_of(bench: Bench, key: str, name: str) -> str:
    runtime = bench.runtime
    if isinstance(runtime, FakeRuntime):
        return (runtime.data.content(key, name) or b"").decode()
    return seen(bench, key, f'cat "$D/{name}"')


def test_tasks_share_what_was_loaded(bench: Bench) -> None:
    key = new_key()
    assert not bench.runtime.data.has(key)
    bench.runtime.data.load(key, [tar(one="first", two="2"), tar(one="later")])
    assert bench.runtime.data.has(key)
    assert bench.another().data.all_keys() == [key]
    bench.runtime.data.load(key, [tar(one="ignored")])
    assert (file_of(bench, key, "one"), file_of(bench, key, "two")) == ("later", "2")


def test_what_breaks_off_is_not_there_and_can_be_loaded_again(bench: Bench) -> None:
    key = new_key()
    [whole] = tar(one="1" * 5000)

    def broken() -> Iterator[bytes]:
        yield whole[:3000]
        raise RuntimeFault("the cable was cut")

    for archives in ([broken()], [tar(two="2"), broken()]):
        with pytest.raises(RuntimeFault):
            bench.runtime.data.load(key, archives)
        assert not bench.runtime.data.has(key)
        with pytest.raises(ImageUnavailable, match="fetch it first"):
            bench.runtime.start(bench.spec(SLEEPER, data={"/data/faces": key}))
        assert bench.runtime.observe() == []
    bench.runtime.data.load(key, [[whole]])
    assert file_of(bench, key, "one") == "1" * 5000


def test_what_came_before_a_cut_stays_and_is_added_to(bench: Bench) -> None:
    key = new_key()
    [cut] = tar(three="3" * 5000)

    def broken() -> Iterator[bytes]:
        yield cut[:3000]
        raise RuntimeFault("the cable was cut")

    data = bench.runtime.data
    assert (data.begun(key), data.unfinished()) == (frozenset(), [])
    with pytest.raises(RuntimeFault):
        data.load(key, [tar(one="1"), tar(two="2"), broken()], ["a", "b", "c"])
    assert not data.has(key)
    again = bench.another().data
    assert (again.begun(key), list(again.unfinished())) == ({"a", "b"}, [key])
    again.load(key, [[cut]], ["c"])
    assert (again.has(key), again.begun(key), list(again.unfinished())) == (True, frozenset(), [])
    assert [file_of(bench, key, name) for name in ("one", "two", "three")] == ["1", "2", "3" * 5000]


def test_what_was_all_there_but_for_the_last_step_is_finished_without_a_part(bench: Bench) -> None:
    key = new_key()

    def killed() -> Iterator[list[bytes]]:
        yield tar(one="1")
        raise RuntimeFault("the service was killed")

    with pytest.raises(RuntimeFault):
        bench.runtime.data.load(key, killed(), ["a"])
    bench.runtime.data.load(key, [], [])
    assert file_of(bench, key, "one") == "1"


def test_what_was_begun_is_forgotten_and_not_added_to_by_what_names_no_parts(bench: Bench) -> None:
    first, second = new_key(), new_key()
    data = bench.runtime.data

    def killed() -> Iterator[list[bytes]]:
        yield tar(one="1")
        raise RuntimeFault("the service was killed")

    for key in (first, second):
        with pytest.raises(RuntimeFault):
            data.load(key, killed(), ["a"])
    data.drop(first)
    assert (data.begun(first), list(data.unfinished())) == (frozenset(), [second])
    data.load(second, [tar(two="2")])
    if isinstance(bench.runtime, FakeRuntime):
        assert bench.runtime.data.content(second, "one") is None
    else:
        assert seen(bench, second, 'cd "$D"; echo *').strip() == "two"


def test_data_without_a_file_is_an_empty_folder(bench: Bench) -> None:
    key = new_key()
    bench.runtime.data.load(key, [])
    assert bench.runtime.data.has(key)
    if not bench.is_fake:
        assert seen(bench, key, 'cd "$D" && echo "has:" *').strip() == "has: *"


def test_the_outputs_of_a_job_are_linked_where_they_are(bench: Bench) -> None:
    write = shell('printf model > "$SCHEDULEARN_OUTPUT_DIR/best"', lambda r, t: r.finish(t))
    task = bench.start(write)
    job_id = task.split("-")[1]
    if isinstance(bench.runtime, FakeRuntime):
        bench.runtime.write_output(job_id, "best", b"model")
    bench.wait_for_end(task)
    key = outputs_key(job_id)
    bench.runtime.data.link(key, job_id)
    bench.runtime.data.link(key, job_id)
    assert file_of(bench, key, "best") == "model"
    bench.runtime.remove(task)
    for each in bench.runtime.observe():
        bench.runtime.remove(each.task_id)
    bench.runtime.data.drop(key)
    assert not bench.runtime.data.has(key)
    assert job_id in bench.runtime.outputs.jobs()
    bench.runtime.data.link(key, job_id)
    bench.runtime.outputs.drop(job_id)
    assert not bench.runtime.data.has(key)


def test_what_a_task_has_is_not_dropped(bench: Bench) -> None:
    if bench.kind == "process":
        pytest.skip("nothing tells which folder a process uses: only what no job needs is dropped")
    key = new_key()
    bench.runtime.data.load(key, [tar(one="1")])
    task = bench.start(SLEEPER, data={"/data/faces": key})
    bench.runtime.data.drop(key)
    assert bench.runtime.data.has(key)
    bench.runtime.remove(task)
    bench.runtime.data.drop(key)
    bench.runtime.data.drop(new_key())
    assert not bench.runtime.data.has(key)
    assert bench.runtime.data.all_keys() == []


def test_the_disk_tells_what_data_takes(bench: Bench) -> None:
    key = new_key()
    bench.runtime.data.load(key, [tar(one="1" * 5000)])
    [stored] = bench.runtime.disk().data
    assert (stored.name, stored.bytes >= 5000) == (key, True)


def test_local_processes_find_read_only_files(processes: Bench) -> None:
    key = new_key()
    processes.runtime.data.load(key, [tar(one="1")])
    told = seen(processes, key, 'test -d "$D" && ls -l "$D/one" | cut -c1-10')
    assert told.strip() == "-r--r--r--"


@pytest.mark.docker
def test_two_containers_read_the_same_set_and_can_not_write_it(containers: Bench) -> None:
    key = new_key()
    containers.runtime.data.load(key, [tar(one="shared")])
    script = 'cat "$D/one"; echo x > "$D/one" || echo; echo "read-only: $?"; test -w "$D" || echo "no"'
    first = containers.spec(shell(f"D=/data/faces; {script}; sleep 1"), data={"/data/faces": key})
    second = containers.spec(shell(f"D=/elsewhere; {script}; sleep 1"), data={"/elsewhere": key})
    for task in (first, second):
        containers.runtime.start(task)
    for task in (first, second):
        assert containers.wait_for_end(task.task_id).exit_code == 0
        told = containers.read(task.task_id, follow=True).decode()
        assert "shared" in told
        assert "Read-only file system" in told


@pytest.mark.docker
def test_a_volume_that_an_engine_made_anew_is_not_taken_for_data(containers: Bench, engine_url: str) -> None:
    key = new_key()
    containers.runtime.data.load(key, [tar(one="1")])
    data = containers.runtime.data
    assert isinstance(data, DataVolumes)
    volume = data.volume_of(key)
    assert volume is not None
    engine = Engine(engine_url)
    labels = engine.api.inspect_volume(volume)["Labels"]
    engine.api.remove_volume(volume)
    assert not data.has(key)
    wait_a_second_of_the_engine(engine)
    engine.api.create_volume(volume, labels=labels)
    engine.close()
    assert not data.has(key)
    data.load(key, [tar(one="again")])
    assert file_of(containers, key, "one") == "again"


def wait_a_second_of_the_engine(engine: Engine) -> None:
    """Its times of volumes are whole seconds."""
    names = []
    made = set()
    while len(made) < 2:
        name = f"schedulearn-test-{uuid.uuid4().hex}"
        made.add(engine.api.create_volume(name)["CreatedAt"])
        names.append(name)
    for name in names:
        engine.api.remove_volume(name)


@pytest.mark.docker
def test_parts_of_a_volume_that_is_gone_do_not_count(containers: Bench, engine_url: str) -> None:
    key, data = new_key(), containers.runtime.data
    assert isinstance(data, DataVolumes)
    [whole] = tar(one="1")

    def killed() -> Iterator[list[bytes]]:
        yield [whole]
        raise RuntimeFault("the service was killed")

    with pytest.raises(RuntimeFault):
        data.load(key, killed(), ["a"])
    assert data.begun(key) == {"a"}
    engine = Engine(engine_url)
    engine.api.remove_volume(DATA.volume(data._name(key)))
    assert (data.begun(key), data.unfinished()) == (frozenset(), [key])
    data.drop(key)
    assert data.unfinished() == []
    with pytest.raises(docker.errors.NotFound):
        engine.api.inspect_volume(PARTS.volume(data._name(key)))
    engine.close()


@pytest.mark.docker
def test_a_service_that_was_killed_while_it_copied_leaves_nothing_that_counts(containers: Bench) -> None:
    key, whole = new_key(), tar(one="1" * 100_000)
    data = containers.runtime.data
    assert isinstance(data, DataVolumes)
    data._content.load(data._name(key), whole, keep=True)  # all but the mark, which comes last
    assert not containers.another().data.has(key)
    containers.another().data.load(key, [tar(two="2")])
    assert seen(containers, key, 'cd "$D"; echo *').strip() == "two"
