"""What only local processes can get wrong: keepers that are killed, services that are killed, pids that lie."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from benches import Bench, Program, shell, wait_for

from schedulearn.scheduler.core.task import EngineState
from schedulearn.scheduler.errors import ImageUnavailable
from schedulearn.scheduler.runtimes import procfs
from schedulearn.scheduler.runtimes.process.runtime import ProcessRuntime

ESCAPING = 'setsid sh -c \'echo $$ >>"$0"; exec sleep 100\' "$PWD/pids" & '


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "tasks"


@pytest.fixture
def bystander():
    process = subprocess.Popen(["sleep", "100"])
    yield process.pid
    process.kill()
    process.wait()


def keeper_of(folder: Path, task_id: str) -> int:
    return json.loads((folder / task_id / "keeper.json").read_text())[0]


def escaped(folder: Path, task_id: str, count: int = 1) -> list[int]:
    """The pids of processes that left the command's session."""
    file = folder / task_id / "work" / "pids"
    return wait_for(
        lambda: (
            file.exists() and (pids := file.read_text().split()) and len(pids) == count and [int(pid) for pid in pids]
        ),
        "an escaped process",
    )


def is_running(pid: int) -> bool:
    return procfs.identify(pid) is not None


class TestKeeper:
    def test_it_is_detached_and_its_command_has_a_session_of_its_own(self, processes: Bench, folder: Path) -> None:
        task_id = processes.start(Program(("sleep", "100")))
        keeper = keeper_of(folder, task_id)
        command = json.loads((folder / task_id / "pid.json").read_text())[0]
        assert os.getsid(keeper) == keeper
        assert os.getsid(command) == os.getpgid(command) == command
        os.kill(keeper, signal.SIGHUP)
        os.kill(keeper, signal.SIGINT)
        time.sleep(0.1)
        assert processes.see(task_id).state is EngineState.RUNNING

    def test_a_killed_keeper_means_lost_and_nothing_of_the_task_lives_on(self, processes: Bench, folder: Path) -> None:
        task_id = processes.start(shell(f"{ESCAPING} (sleep 100)& echo ready; wait"))
        pids = [*escaped(folder, task_id), json.loads((folder / task_id / "pid.json").read_text())[0]]
        ticks = []
        watcher = threading.Thread(target=lambda: [ticks.append(0) for _ in processes.runtime.watch()])
        watcher.start()
        wait_for(lambda: ticks)
        before = len(ticks)
        os.kill(keeper_of(folder, task_id), signal.SIGKILL)
        wait_for(lambda: len(ticks) > before, "a tick", 2)
        task = processes.see(task_id)
        assert (task.state, task.exit_code) == (EngineState.LOST, None)
        assert task.started_at < task.finished_at
        assert "killed" in task.error
        assert not any(is_running(pid) for pid in pids)
        assert processes.read(task_id, follow=True) == b"ready\n"
        processes.runtime.start(processes.spec(Program(("sleep", "1")), job_id=task_id.split("-")[1]))
        assert processes.see(task_id) == task, "a lost task is not started again"
        processes.runtime.close()
        watcher.join(5)

    def test_following_the_log_of_a_lost_task_ends(self, processes: Bench, folder: Path) -> None:
        task_id = processes.start(shell("echo one; sleep 100"))
        output = processes.runtime.logs(task_id, True)
        assert next(output) == b"one\n"
        os.kill(keeper_of(folder, task_id), signal.SIGKILL)
        assert list(output) == []

    def test_stopping_a_task_whose_keeper_was_killed_kills_the_rest(self, processes: Bench, folder: Path) -> None:
        task_id = processes.start(shell(f"{ESCAPING} wait"))
        (pid,) = escaped(folder, task_id)
        os.kill(keeper_of(folder, task_id), signal.SIGKILL)
        processes.runtime.stop(task_id, 10)
        assert not is_running(pid)
        assert processes.see(task_id).state is EngineState.LOST

    @pytest.mark.parametrize("how", ["end", "stop", "remove"])
    def test_what_left_the_session_ends_with_its_task(self, processes: Bench, folder: Path, how: str) -> None:
        task_id = processes.start(shell(f"{ESCAPING} {ESCAPING} sleep {0.3 if how == 'end' else 100}"))
        pids = escaped(folder, task_id, 2)
        if how == "end":
            processes.wait_for_end(task_id)
        else:
            getattr(processes.runtime, how)(*((task_id, 0.1) if how == "stop" else (task_id,)))
        assert not any(is_running(pid) for pid in pids)

    def test_a_command_that_closes_its_output_goes_on(self, processes: Bench) -> None:
        task_id = processes.start(shell("echo one; exec >&- 2>&-; sleep 0.2; exit 6"))
        assert processes.wait_for_end(task_id).exit_code == 6
        assert processes.read(task_id) == b"one\n"

    def test_a_task_whose_directory_is_deleted_ends(self, processes: Bench, folder: Path) -> None:
        task_id = processes.start(Program(("sleep", "100")))
        pids = [json.loads((folder / task_id / name).read_text())[0] for name in ("keeper.json", "pid.json")]
        shutil.rmtree(folder / task_id)
        wait_for(lambda: not any(is_running(pid) for pid in pids))

    def test_a_later_stop_can_shorten_the_grace(self, processes: Bench) -> None:
        task_id = processes.start(shell("trap '' TERM; echo ready; while :; do sleep 0.05; done"))
        processes.wait_for_output(task_id, b"ready")
        patient = threading.Thread(target=processes.runtime.stop, args=(task_id, 100))
        patient.start()
        time.sleep(0.1)
        processes.runtime.stop(task_id, 0)
        patient.join(5)
        assert processes.see(task_id).exit_code == 137


class TestCrashes:
    """The service is killed between any two steps of a start; then the next service starts the task again."""

    STARTER = """
import sys
from pathlib import Path
from schedulearn.scheduler.runtimes.contract import TaskSpec
from schedulearn.scheduler.runtimes.process.runtime import ProcessRuntime
data, environment, job, output = sys.argv[1:]
runtime = ProcessRuntime("here", Path(data), {"image": Path(environment)})
print("go", flush=True)
runtime.start(TaskSpec(job, 1, 0, "image", ("sh", "-c", f"echo ran >>{output}; sleep 0.02"), ()))
"""

    def test_the_command_runs_exactly_once(self, tmp_path: Path) -> None:
        environment = tmp_path / "environment"
        (environment / "bin").mkdir(parents=True)
        runtime = ProcessRuntime("here", tmp_path / "data", {"image": environment})
        chance = random.Random(7)
        from schedulearn.scheduler.core.task import TaskSpec

        states = set()
        for number in range(25):
            output = tmp_path / f"output{number}"
            arguments = [tmp_path / "data", environment, f"j{number}", output]
            with subprocess.Popen(
                [sys.executable, "-c", self.STARTER, *map(str, arguments)], stdout=subprocess.PIPE
            ) as starter:
                starter.stdout.readline()
                time.sleep(chance.uniform(0, 0.02 * (1 + number)))  # a loaded machine takes its steps later
                starter.kill()
            spec = TaskSpec(f"j{number}", 1, 0, "image", ("sh", "-c", f"echo ran >>{output}; sleep 0.02"), ())
            seen = [task for task in runtime.observe() if task.task_id == spec.task_id]
            states.add(seen[0].state if seen else None)
            runtime.start(spec)

            def ended(task_id: str = spec.task_id) -> bool:
                return any(t.task_id == task_id and t.state is EngineState.EXITED for t in runtime.observe())

            wait_for(ended)
            assert output.read_text() == "ran\n", f"run {number}"
            runtime.remove(spec.task_id)
        runtime.close()
        assert len(states) > 1, "the kills all fell into the same step: this proved little"

    def test_a_keeper_killed_at_any_moment_never_lets_it_run_twice(self, processes: Bench, folder: Path) -> None:
        chance = random.Random(3)
        for number in range(12):
            spec = processes.spec(shell("echo ran >>runs; sleep 0.05"), job_id=f"k{number}")
            starter = threading.Thread(target=self._start, args=(processes, spec))
            starter.start()
            try:
                wait_for(lambda path=folder / spec.task_id / "keeper.json": path.exists())
                time.sleep(chance.uniform(0, 0.01))
                os.kill(keeper_of(folder, spec.task_id), signal.SIGKILL)
            except ProcessLookupError:
                pass  # it was faster
            starter.join()
            processes.runtime.start(spec)
            task = processes.wait_for_end(spec.task_id)
            runs = folder / spec.task_id / "work" / "runs"
            ran = runs.read_text().count("ran") if runs.exists() else 0
            assert ran == 1 or (ran == 0 and task.state is EngineState.LOST)

    @staticmethod
    def _start(bench: Bench, spec) -> None:
        try:
            bench.runtime.start(spec)
        except Exception:
            pass  # its keeper was killed before it could answer


class TestIdentity:
    """A pid is believed only together with its start time and boot."""

    def pretend(self, folder: Path, bench: Bench, who: procfs.Identity) -> str:
        spec = bench.spec(Program(("sleep", "100")))
        directory = folder / spec.task_id
        directory.mkdir(parents=True)
        procfs.write_json(str(directory / "pid.json"), [*who, time.time()])
        procfs.write_json(str(directory / "keeper.json"), who)
        return spec.task_id

    def test_a_pid_that_was_used_again_is_left_alone(self, processes: Bench, folder: Path, bystander: int) -> None:
        processes.another()
        who = procfs.identify(bystander)
        task_id = self.pretend(folder, processes, who._replace(ticks=who.ticks - 1))
        processes.runtime.stop(task_id, 0)
        assert processes.see(task_id).state is EngineState.LOST
        processes.runtime.remove(task_id)
        assert is_running(bystander)
        assert not procfs.send_signal(who._replace(ticks=who.ticks + 1), signal.SIGKILL)
        assert is_running(bystander)

    def test_after_a_reboot_a_task_is_lost_and_its_pid_means_nothing(
        self, processes: Bench, folder: Path, bystander: int
    ) -> None:
        processes.another()
        task_id = self.pretend(folder, processes, procfs.identify(bystander)._replace(boot="another"))
        assert processes.see(task_id).state is EngineState.LOST
        processes.runtime.stop(task_id, 0)
        assert is_running(bystander)

    def test_a_process_of_another_task_is_no_leftover(self, processes: Bench, folder: Path) -> None:
        first, second = processes.start(Program(("sleep", "100"))), processes.start(Program(("sleep", "100")))
        os.kill(keeper_of(folder, first), signal.SIGKILL)
        assert processes.wait_for_end(first).state is EngineState.LOST
        assert processes.see(second).state is EngineState.RUNNING

    def test_a_zombie_is_not_alive(self) -> None:
        child = os.fork()
        if child == 0:
            os._exit(0)
        wait_for(lambda: procfs.identify(child) is None)
        os.waitpid(child, 0)

    def test_the_lock_can_be_asked_after_without_being_taken(self, tmp_path: Path) -> None:
        path = tmp_path / "lock"
        assert not procfs.is_locked(path)
        lock = procfs.try_lock(path)
        assert procfs.is_locked(path)
        assert procfs.try_lock(path) is None
        os.close(lock)
        assert not procfs.is_locked(path)


class TestEnvironment:
    def test_the_secrets_of_the_service_stay_with_it(self, processes: Bench, monkeypatch) -> None:
        monkeypatch.setenv("SCHEDULEARN_API_TOKEN", "secret")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.setenv("TZ", "Asia/Tokyo")
        task_id = processes.start(Program(("env",)), env={"OMP_NUM_THREADS": "3"})
        env = dict(line.split("=", 1) for line in processes.read(task_id, follow=True).decode().splitlines())
        assert "secret" not in env.values()
        assert env["TZ"] == "Asia/Tokyo"
        assert env["OMP_NUM_THREADS"] == "3"
        assert env["PYTHONUNBUFFERED"] == "1"
        assert env["PATH"].startswith(env["VIRTUAL_ENV"] + "/bin:")
        assert set(env) >= {"HOME", "LANG"}

    def test_the_environments_app_is_in_the_working_directory(self, processes: Bench) -> None:
        task_id = processes.start(shell("cat greeting; echo more >new"))
        assert processes.read(task_id, follow=True) == b"hello"

    def test_real_gpus_are_pinned_for_cuda_too(self, processes: Bench) -> None:
        task_id = processes.start(
            shell("echo $CUDA_VISIBLE_DEVICES"), gpu_uuids=("GPU-a", "GPU-b"), simulated_gpus=False
        )
        assert processes.read(task_id, follow=True) == b"GPU-a,GPU-b\n"

    def test_an_environment_is_built_once_and_again_after_an_upgrade(
        self, processes: Bench, tmp_path: Path, monkeypatch
    ) -> None:
        built = tmp_path / "built"
        script = tmp_path / "build-env.sh"
        script.write_text(
            f"echo 'progress 5 compiling'; echo 'progress 3 odd'; echo noise; mkdir -p '{built}/bin'; "
            f"echo 'progress 100 done'; echo 'ready {built}'"
        )
        monkeypatch.setattr("schedulearn.scheduler.runtimes.process.environments.recipe_path", lambda name: script)
        monkeypatch.setattr("schedulearn.scheduler.runtimes.process.environments.recipe_digest", lambda: "one")
        assert not processes.runtime.images.has("anything")
        progress = list(processes.runtime.images.fetch("anything"))
        assert [p.percent for p in progress] == [0, 5, 5, 100]
        assert progress[1].message == "compiling"
        assert processes.runtime.images.has("anything")
        task_id = processes.start(shell("echo $VIRTUAL_ENV"), image="anything")
        assert processes.read(task_id, follow=True).decode().strip() == str(built)
        assert processes.another().images.has("anything")
        monkeypatch.setattr("schedulearn.scheduler.runtimes.process.environments.recipe_digest", lambda: "two")
        assert not processes.another().images.has("anything")

    def test_our_own_images_names_mean_environments_of_their_own(
        self, processes: Bench, tmp_path: Path, monkeypatch
    ) -> None:
        script = tmp_path / "build-env.sh"
        script.write_text(f"mkdir -p '{tmp_path}/'$1/bin; echo \"ready {tmp_path}/$1\"")
        monkeypatch.setattr("schedulearn.scheduler.runtimes.process.environments.recipe_path", lambda name: script)
        monkeypatch.setattr("schedulearn.scheduler.runtimes.process.environments.recipe_digest", lambda: "one")
        names = {
            "schedulearn/horovod-tensorflow": "tensorflow",
            "docker.io/schedulearn/horovod-mxnet:latest": "mxnet",
            "schedulearn/horovod-cuda13": "cuda13",
            "somebody/horovod-mxnet": "cpu",
        }
        for image, flavour in names.items():
            list(processes.runtime.images.fetch(image))
            task_id = processes.start(shell("echo $VIRTUAL_ENV"), image=image)
            assert processes.read(task_id, follow=True).decode().strip() == str(tmp_path / flavour)
        assert not processes.runtime.images.has("schedulearn/horovod-keras")

    def test_a_build_that_is_given_up_leaves_no_process(self, processes: Bench, tmp_path: Path, monkeypatch) -> None:
        script = tmp_path / "build-env.sh"
        script.write_text(f"echo $$ >'{tmp_path}/pid'; echo 'progress 1 x'; sleep 100")
        monkeypatch.setattr("schedulearn.scheduler.runtimes.process.environments.recipe_path", lambda name: script)
        progress = processes.runtime.images.fetch("anything")
        next(progress), next(progress)
        progress.close()
        assert not is_running(int((tmp_path / "pid").read_text()))

    def test_a_named_environment_that_is_missing_says_where_it_should_be(self, tmp_path: Path) -> None:
        runtime = ProcessRuntime("here", tmp_path / "data", {"mine": tmp_path / "nowhere"})
        assert not runtime.images.has("mine")
        with pytest.raises(ImageUnavailable, match="nowhere"):
            list(runtime.images.fetch("mine"))
        runtime.close()


def test_a_program_is_paused_while_it_begins_another(tmp_path: Path) -> None:
    """It waits in the kernel for its child, which must not be suspended before it has begun."""
    if shutil.which("gcc") is None:
        pytest.skip("NO C COMPILER, so a pause during vfork is NOT tested: install gcc")
    source = Path(__file__).parents[1] / "support/vfork.c"
    subprocess.run(["gcc", "-o", str(tmp_path / "shell"), str(source)], check=True)
    with subprocess.Popen([tmp_path / "shell"], stdout=subprocess.PIPE, start_new_session=True) as program:
        leader = procfs.identify(program.pid)
        assert leader is not None

        def family() -> list[procfs.Identity]:
            return procfs.find_family(leader, b"no such mark")

        try:
            wait_for(lambda: [who for who in family() if procfs.is_stopped(who)], "its child")
            assert procfs.suspend_all(leader, family, 20)
            assert [procfs.is_stopped(who) for who in family()] == [True, True]
            procfs.resume_all(leader, family())
            assert program.stdout is not None
            assert program.stdout.readline() == b"went on\n"
        finally:
            os.killpg(program.pid, signal.SIGKILL)
