"""Somebody removes the folders of local tasks and of logs while a service and its tasks run."""

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from benches import Bench, Program, shell, wait_for

from schedulearn.scheduler.core.task import EngineState
from schedulearn.scheduler.runtimes import procfs
from schedulearn.scheduler.runtimes.log_store import LogStore


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def keeper_of(data: Path, task_id: str) -> int:
    return int(json.loads((data / "tasks" / task_id / "keeper.json").read_text())[0])


def is_running(pid: int) -> bool:
    return procfs.identify(pid) is not None


@pytest.mark.parametrize("removed", [("logs",), ("tasks",), ("logs", "tasks")])
def test_a_task_starts_where_its_folders_were_removed(
    processes: Bench, data: Path, removed: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    assert processes.runtime.observe() == []
    for name in removed:
        shutil.rmtree(data / name)
    task_id = processes.start(shell("echo one; exit 3"))
    assert processes.wait_for_end(task_id).exit_code == 3
    assert processes.read(task_id) == b"one\n"
    for name in removed:
        assert f"{data / name} was removed" in caplog.text


def test_a_task_goes_on_and_ends_without_the_folder_of_its_log(processes: Bench, data: Path) -> None:
    task_id = processes.start(shell("echo one; while [ ! -e go ]; do sleep 0.02; done; echo two; exit 4"))
    processes.wait_for_output(task_id, b"one")
    shutil.rmtree(data / "logs")
    (data / "tasks" / task_id / "work" / "go").touch()
    assert processes.wait_for_end(task_id).exit_code == 4
    said = processes.read(task_id)
    assert said.endswith(b"two\n")
    assert b"the log up to here was removed" in said
    wait_for(lambda: not is_running(keeper_of(data, task_id)), "the end of its keeper")


def test_a_task_that_says_nothing_more_ends_without_the_folder_of_its_log(processes: Bench, data: Path) -> None:
    task_id = processes.start(shell("echo one; while [ ! -e go ]; do sleep 0.02; done"))
    processes.wait_for_output(task_id, b"one")
    shutil.rmtree(data / "logs" / task_id)
    (data / "tasks" / task_id / "work" / "go").touch()
    assert processes.wait_for_end(task_id).exit_code == 0


def test_tasks_whose_folder_was_removed_end_and_others_start(processes: Bench, data: Path) -> None:
    task_id = processes.start(Program(("sleep", "100")))
    keeper = keeper_of(data, task_id)
    shutil.rmtree(data / "tasks")
    assert processes.see(task_id) is None
    wait_for(lambda: not is_running(keeper), "the end of its keeper")
    other = processes.start(shell("exit 0"))
    assert processes.wait_for_end(other).state is EngineState.EXITED


def test_a_keeper_that_cant_record_the_end_obeys_a_stop(processes: Bench, data: Path) -> None:
    task_id = processes.start(shell("while [ ! -e go ]; do sleep 0.02; done"))
    keeper, folder, away = keeper_of(data, task_id), data / "tasks" / task_id, data / "away"
    folder.rename(away)
    (away / "work" / "go").touch()
    error = away / "keeper.err"
    wait_for(lambda: "can't record" in error.read_text(), "the first try")
    assert is_running(keeper), "it may become possible again"
    os.kill(keeper, signal.SIGTERM)
    began = time.monotonic()
    wait_for(lambda: not is_running(keeper), "its end")
    assert time.monotonic() - began < 15


def test_a_keeper_that_was_to_stop_does_not_try_for_ever(processes: Bench, data: Path) -> None:
    task_id = processes.start(Program(("sleep", "100")))
    keeper, folder = keeper_of(data, task_id), data / "tasks" / task_id
    folder.rename(data / "away")
    os.kill(keeper, signal.SIGTERM)
    wait_for(lambda: not is_running(keeper), "its end")


def test_a_writer_goes_on_in_a_new_folder(tmp_path: Path) -> None:
    store = LogStore(tmp_path / "logs")
    writer = store.writer("t")
    writer.append(b"one\n")
    shutil.rmtree(tmp_path / "logs")
    writer.append(b"two\n")
    with pytest.raises(BlockingIOError):
        store.writer("t")
    writer.close()
    offset, said = store.read("t", 0)
    assert offset == 4, "as if the earlier bytes were dropped"
    assert said.endswith(b"two\n")
