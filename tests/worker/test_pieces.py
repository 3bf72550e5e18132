"""The parts of the SDK that need no framework."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports import ReportTaker

from schedulearn.metrics.model.goodput import BatchBounds
from schedulearn.scheduler.core.outcomes.conclusions import PREEMPTED as WHAT_THE_SERVICE_READS
from schedulearn.scheduler.runtimes.sdk import unpack_sdk
from schedulearn.worker import PREEMPTED
from schedulearn.worker.batch.choice import Batch
from schedulearn.worker.checkpoints import Checkpoints
from schedulearn.worker.environment import Environment
from schedulearn.worker.keras_trap import warn_of_scripts, warn_of_trap
from schedulearn.worker.measurements import MAX_PASSES, MAX_POINTS, Measurements
from schedulearn.worker.order import permutation, steps
from schedulearn.worker.reporter import Reporter


def test_worker_and_service_agree_on_the_exit_code() -> None:
    assert PREEMPTED == WHAT_THE_SERVICE_READS


def test_the_sdk_is_imported_with_numpy_alone(tmp_path: Path) -> None:
    path = unpack_sdk(tmp_path)
    script = (
        "import sys, schedulearn.worker.reporter, schedulearn.worker.batch.choice, schedulearn.worker.checkpoints, "
        "schedulearn.worker.order, schedulearn.worker.launch, schedulearn.worker.run, schedulearn.worker.loader; "
        "mine = {'numpy', 'schedulearn'} | set(sys.stdlib_module_names); "
        "print({m.partition('.')[0] for m in sys.modules if not m.startswith('_')} - mine)"
    )
    site = Path(np.__file__).parents[1]
    blocked = tmp_path / "only-numpy"
    blocked.mkdir()
    for folder in site.glob("numpy*"):
        (blocked / folder.name).symlink_to(folder)
    env = {**os.environ, "PYTHONPATH": f"{path}:{blocked}"}
    done = subprocess.run([sys.executable, "-S", "-c", script], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("set()", "{'cython_runtime'}")


# --- order ---


@given(
    samples=st.integers(8, 300),
    shape=st.lists(st.tuples(st.integers(1, 8), st.integers(8, 320), st.integers(1, 4)), min_size=1, max_size=6),
    cuts=st.lists(st.integers(1, 5), min_size=6, max_size=6),
    fits=st.sampled_from([None, 1, 5]),
)
def test_every_sample_comes_once_however_often_workers_and_batch_change(
    samples: int, shape: list[tuple[int, int, int]], cuts: list[int], fits: int | None
) -> None:
    order, position, seen = permutation(0, 3, samples), 0, Counter[int]()
    for index, (workers, batch, most_passes) in enumerate(shape):
        for_all = [list(steps(order, position, rank, workers, batch, most_passes, fits)) for rank in range(workers)]
        assert len({len(passes) for passes in for_all}) == 1, "a worker would wait for ever"
        done, weights = 0, 0.0
        for passes in zip(*for_all, strict=True):
            assert len({p.samples for p in passes}) == len({(p.first, p.last, p.passes) for p in passes}) == 1
            assert [p.weight for p in passes] == [
                pytest.approx(workers * len(p.indices) / p.samples) if p.weight else 0 for p in passes
            ]
            weights += sum(p.weight for p in passes)
            assert passes[0].samples <= batch + workers
            assert max(len(p.indices) for p in passes) - min(len(p.indices) for p in passes) <= 1
            for each in passes:
                if each.weight > 0:
                    seen.update(each.indices.tolist())
            if passes[0].last:
                assert weights == pytest.approx(workers), "each sample of a step counts the same"
                weights = 0.0
                position += passes[0].samples
                done += 1
                if done == cuts[index] and index < len(shape) - 1:
                    break
        if position == samples:
            break
    assert seen == Counter(order[:position].tolist())
    assert position == samples


@given(
    workers=st.integers(1, 9), init=st.integers(1, 64), growth=st.sampled_from([1, 2, 4]),
    fits=st.sampled_from([1, 2, 3, 7, 16]), more=st.integers(0, 70),
)  # fmt: skip
def test_no_pass_takes_more_samples_than_fit(workers: int, init: int, growth: int, fits: int, more: int) -> None:
    """Not where workers have unequal shares either, nor in the last step of an epoch, which takes what is left."""
    batch = Batch(BatchBounds(init, growth * init, max_local=fits), 1, workers)
    batch.choose(growth * init, "")
    order = np.arange(2 * batch.total + more)
    found = [list(steps(order, 0, rank, workers, *batch.shape)) for rank in range(workers)]
    assert max(len(each.indices) for passes in found for each in passes) <= fits
    assert {passes[0].passes for passes in found} == {batch.accumulation + 1}, "what the service reckons with"


@given(samples=st.integers(1, 200), batch=st.integers(1, 64), workers=st.integers(1, 9))
def test_an_epoch_has_as_many_steps_on_any_number_of_workers_if_the_last_may_be_small(
    samples: int, batch: int, workers: int
) -> None:
    order = permutation(0, 0, samples)
    for_all = [list(steps(order, 0, rank, workers, batch, 1, least=1)) for rank in range(workers)]
    assert {len(passes) for passes in for_all} == {-(-samples // batch)}
    for step in zip(*for_all, strict=True):
        assert sum(each.weight for each in step) == pytest.approx(workers)
        assert sum(len(each.indices) for each in step if each.weight) == step[0].samples <= batch


def test_epochs_have_orders_of_their_own_that_are_the_same_everywhere() -> None:
    assert (permutation(1, 2, 50) == permutation(1, 2, 50)).all()
    assert (permutation(1, 2, 50) != permutation(1, 3, 50)).any()
    assert sorted(permutation(1, 2, 50).tolist()) == list(range(50))


# --- measurements ---


def test_measurements_take_no_more_than_their_room_and_nothing_is_lost_when_a_report_fails() -> None:
    found = Measurements()
    found.add_pass((1, 1, 7), 0.1, 0.1)  # one pass tells little: it waits for a second one
    for index in range(1000):
        found.add_pass((1, 2, 32), 0.1, 0.2)
        found.add_metric("loss", index, float(index))
    report = found.take()
    assert report["observations"] == [
        {"num_nodes": 1, "num_gpus": 2, "atomic_batch": 32, "passes": MAX_PASSES, "grad_time": 0.1, "iter_time": 0.2}
    ]
    steps_kept = [metric["step"] for metric in report["metrics"]]
    assert len(steps_kept) <= MAX_POINTS
    assert steps_kept[0] == 0
    assert steps_kept[-1] >= 990
    assert found.take() == {"observations": [], "metrics": []}
    found.add_pass((1, 1, 7), 0.1, 0.1)
    for _ in range(3):
        found.add_metric("loss", 2000, 1.0)
        again = found.take()
        found.put_back()
    assert len(again["metrics"]) == 3
    assert [seen["passes"] for seen in again["observations"]] == [2]


# --- checkpoints ---


def save(checkpoints: Checkpoints, step: int, content: bytes) -> None:
    checkpoints.save(step, lambda file: file.write(content) and None)


def test_the_newest_whole_checkpoint_is_found(tmp_path: Path) -> None:
    checkpoints = Checkpoints(str(tmp_path))
    assert list(checkpoints.newest_first()) == []
    for step in (5, 30, 200):
        save(checkpoints, step, b"x" * step)
    found = list(checkpoints.newest_first())
    assert [step for step, _ in found] == [200, 30], "the newest two are kept"
    data = Path(found[0][1])
    for spoil in (
        lambda: data.write_bytes(data.read_bytes()[:-1]),  # torn
        lambda: data.write_bytes(b"y" + data.read_bytes()[1:]),  # changed
        lambda: data.unlink(),
        lambda: data.with_suffix(".json").write_text("{"),
    ):
        save(checkpoints, 200, b"x" * 200)
        spoil()
        assert [step for step, _ in checkpoints.newest_first()] == [30]
    assert not list(tmp_path.glob("*.partial"))


def test_what_workers_wrote_themselves_is_part_of_a_checkpoint(tmp_path: Path) -> None:
    checkpoints = Checkpoints(str(tmp_path))
    for step in (5, 30, 200):
        checkpoints.clear_shards(step)
        folder = Path(checkpoints.shards(step))
        folder.mkdir()
        for rank in range(2):
            (folder / f"__{rank}_0.distcp").write_bytes(b"z" * (step + rank))
        save(checkpoints, step, b"x" * step)
    assert [step for step, _ in checkpoints.newest_first()] == [200, 30]
    assert not Path(checkpoints.shards(5)).exists(), "it went with its checkpoint"
    part = Path(checkpoints.shards(200)) / "__1_0.distcp"
    for spoil in (
        lambda: part.write_bytes(part.read_bytes()[:-1]),
        lambda: part.unlink(),
        lambda: part.with_name("another").touch(),
        lambda: checkpoints.clear_shards(200),
    ):
        Path(checkpoints.shards(200)).mkdir(exist_ok=True)
        part.write_bytes(b"z" * 201)
        save(checkpoints, 200, b"x" * 200)
        assert [step for step, _ in checkpoints.newest_first()] == [200, 30]
        spoil()
        assert [step for step, _ in checkpoints.newest_first()] == [30]
    # A worker was killed before the checkpoint was whole: what it wrote goes with the next one.
    left = Path(checkpoints.shards(250))
    left.mkdir()
    (left / "__0_0.distcp").touch()
    save(checkpoints, 300, b"x")
    assert not left.exists()


WRITER = """
import sys, time
from schedulearn.worker.checkpoints import Checkpoints
from schedulearn.worker.environment import Environment
from schedulearn.worker.instruments import Instruments
from schedulearn.worker.keras_trap import warn_of_scripts, warn_of_trap
checkpoints, step = Checkpoints(sys.argv[1]), int(sys.argv[2])
while True:
    step += 1
    def write(file):
        for part in range(8):
            file.write(step.to_bytes(8, "little") * 4096)
            file.flush()
    checkpoints.save(step, write)
    print(step, flush=True)
"""


def test_a_writer_that_is_killed_leaves_what_it_had_told_of(tmp_path: Path) -> None:
    told = 0
    random = np.random.RandomState(0)
    for _ in range(12):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(told)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        told = int(writer.stdout.readline())
        time.sleep(random.uniform(0, 0.03))  # any moment will do
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().split()
        writer.stdout.close()
        writer.wait()
        told = int(rest[-1]) if rest else told
        step, path = next(iter(Checkpoints(str(tmp_path)).newest_first()))
        assert step in (told, told + 1)
        assert Path(path).read_bytes() == step.to_bytes(8, "little") * 4096 * 8
        told = step


# --- reports ---


@pytest.fixture
def service() -> Iterator[ReportTaker]:
    made = ReportTaker()
    yield made
    made.close()


def test_reports_come_at_the_interval_and_at_the_end(service: ReportTaker) -> None:
    found = Measurements()
    reporter = Reporter(service.env(report_interval=3600), found.take, found.put_back)
    reporter.start()
    service.wait_for(1)  # at once
    found.add_metric("loss", 1, 0.5)
    reporter.close()
    reporter.close()
    assert [len(body["metrics"]) for _, _, body in service.bodies] == [0, 1]
    assert {token for _, token, _ in service.bodies} == {"Bearer j.x"}
    assert reporter.answer == {"models": {}}


def test_what_a_service_in_trouble_did_not_take_it_gets_later(
    service: ReportTaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedulearn.worker.reporter.FIRST_RETRY_S", 0.01)
    found = Measurements()
    service.answers = [503, 500, 200]
    found.add_metric("loss", 1, 0.5)
    reporter = Reporter(service.env(), found.take, found.put_back)
    reporter.start()
    service.wait_for(4)
    reporter.close()
    assert [(code, len(body["metrics"])) for code, _, body in service.bodies[:4]] == [
        (503, 1), (500, 1), (200, 1), (200, 0)]  # fmt: skip


def test_a_worker_that_reports_too_often_rests_as_long_as_it_is_told(
    service: ReportTaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedulearn.worker.reporter.FIRST_RETRY_S", 0.01)
    found = Measurements()
    service.answers = [429]
    found.add_metric("loss", 1, 0.5)
    reporter = Reporter(service.env(), found.take, found.put_back)
    reporter.start()
    service.wait_for(2)
    reporter.close()
    assert service.times[1] - service.times[0] >= 1.0
    assert [len(body["metrics"]) for _, _, body in service.bodies[:2]] == [1, 1], "what was refused is sent again"


@pytest.mark.parametrize("code", [401, 404, 409])
def test_a_worker_that_is_told_to_give_up_gives_up(service: ReportTaker, code: int) -> None:
    service.answers = [code]
    reporter = Reporter(service.env(), dict, lambda: None)
    reporter.start()
    reporter._thread.join(timeout=10)
    assert not reporter._thread.is_alive()
    assert len(service.bodies) == 1
    reporter.close()


def test_nobody_waits_for_a_service_that_is_away() -> None:
    service = ReportTaker()
    service.server.shutdown()
    service.server.server_close()
    found = Measurements()
    began = time.monotonic()
    reporter = Reporter(service.env(), found.take, found.put_back)
    reporter.start()
    found.add_metric("loss", 1, 0.5)
    reporter.close()
    assert time.monotonic() - began < 5
    assert len(found.take()["metrics"]) == 1


# --- what a job's own keys change ---


@pytest.mark.parametrize(
    ("keys", "bounds"),
    [
        ({}, (64, 512)),
        ({"BATCH_SIZE": "128"}, (128, 512)),
        ({"BATCH_SIZE": "1024"}, (1024, 1024)),
        ({"MAX_BATCH_SIZE": "256"}, (64, 256)),
        ({"MAX_BATCH_SIZE": "32"}, (32, 32)),
        ({"BATCH_SIZE": "16", "MAX_BATCH_SIZE": "32"}, (16, 32)),
    ],
)
def test_the_jobs_bounds_win_over_the_scripts(keys: dict[str, str], bounds: tuple[int, int]) -> None:
    env = Environment.read({"SCHEDULEARN_JOB_ID": "j", **{f"SCHEDULEARN_{name}": text for name, text in keys.items()}})
    assert env is not None
    found = env.bounds(BatchBounds(64, 512, min_local=4))
    assert (found.init_batch, found.max_batch, found.min_local) == (*bounds, 4)


# --- the trap of Keras 3 ---


@pytest.mark.parametrize(
    ("version", "imported", "warns"),
    [
        ("3.15.1", {"horovod.keras"}, True),
        ("3.0.5", {"horovod.tensorflow.keras", "horovod"}, True),
        ("3.0.5", {"horovod.torch"}, False),
        ("2.15.0", {"horovod.keras"}, False),
        ("", {"horovod.keras"}, False),
    ],
)
def test_keras_3_with_horovods_own_module_is_warned_of(version: str, imported: set[str], warns: bool) -> None:
    assert (warn_of_trap(version, imported) is not None) == warns


@pytest.mark.parametrize(
    ("text", "warns"),
    [
        ("import horovod.keras as hvd", True),
        ("if True:\n    from horovod.tensorflow.keras import callbacks\n", True),
        ("import horovod.tensorflow as hvd", False),
        ("# import horovod.keras is what one should not do", False),
    ],
)
def test_the_launcher_knows_it_by_the_script(tmp_path: Path, text: str, warns: bool) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os\n" + text)
    command = ["python", "no-such-file.py", str(script), "--epochs", "3"]
    assert (warn_of_scripts("3.15.1", command) is not None) == warns
    assert warn_of_scripts("2.15.0", command) is None


# --- the launcher of elastic jobs ---


def launch(count: int, script: str, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "schedulearn.worker.launch", "torchrun", str(count), "sh", "-c", script]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 0", 0),
        ("exit 75", 75),
        ("exit $((RANK * 75))", 75),
        ("test $RANK = 0 && exit 3; exec sleep 60", 3),
        ("test $RANK = 1 && kill -9 $$; exec sleep 60", 137),
        ("test $RANK = 1 && kill -9 $$; trap 'exit 1' TERM; sleep 60 & wait", 137),
    ],
)
def test_how_the_workers_end_is_how_the_job_ends(script: str, code: int) -> None:
    process = launch(2, script)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == code, output


@pytest.mark.slow
def test_a_stop_is_passed_on_and_waited_for() -> None:
    # Not `wait`: a signal that comes just before it is lost on some shells.
    training = "exec 2>/dev/null; trap 'echo saved $RANK; exit 75' TERM; echo ready; while :; do sleep 0.05; done"
    process = launch(3, training, start_new_session=True)
    assert process.stdout is not None
    ready = [process.stdout.readline() for _ in range(3)]
    assert sorted(ready) == [f"[{rank}]<stdout>:ready\n" for rank in range(3)]
    os.killpg(process.pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == PREEMPTED
    assert sorted(output.split()) == sorted(f"{rank}" for rank in range(3)) + [
        f"[{rank}]<stdout>:saved" for rank in range(3)
    ]


def test_what_a_stopping_worker_starts_does_not_hold_up_its_end() -> None:
    process = launch(
        1, "trap 'sleep 60 & exit 75' TERM; echo ready; while :; do sleep 0.05; done", start_new_session=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == PREEMPTED


@pytest.mark.parametrize("after", ["echo next", "false"])
def test_a_worker_below_a_shell_gets_its_time_to_save(after: str) -> None:
    training = "trap 'sleep 0.7; echo saved $RANK; exit 75' TERM; echo ready; while :; do sleep 0.05; done"
    process = launch(2, f"exec 2>/dev/null; ({training}); {after}", start_new_session=True)
    assert process.stdout is not None
    for _ in range(2):
        process.stdout.readline()
    os.killpg(process.pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    assert sorted(output.splitlines()) == [f"[{rank}]<stdout>:saved {rank}" for rank in range(2)]
    assert process.returncode == 143


def test_a_command_that_is_not_there_is_told_apart() -> None:
    command = [sys.executable, "-m", "schedulearn.worker.launch", "torchrun", "1", "no-such-command"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (127, "no-such-command: No such file or directory\n")
