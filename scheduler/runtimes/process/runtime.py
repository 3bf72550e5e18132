"""Runtime for local processes, for machines without Docker.

It has the same interface and runs the same jobs, but does not isolate files or memory. A task is a directory below
`<data>/tasks/` and a supervisor process (keeper.py). The supervisor runs the command, copies its output into
`<data>/logs/` and outlives the service. All state is on disk and in locks, and none in this object. Crashes of the
service therefore never lose or duplicate a task. Requires Linux 5.3 or newer.
"""

from __future__ import annotations

import logging
import os
import pwd
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.task import EngineState, ObservedTask, TaskSpec, parse_task_id
from schedulearn.scheduler.errors import ImageUnavailable, RuntimeFault, StartRefused
from schedulearn.scheduler.private_files import umask_of_user
from schedulearn.scheduler.runtimes import procfs
from schedulearn.scheduler.runtimes.contract import Disk, UntrackedFile
from schedulearn.scheduler.runtimes.cuda_check import CudaCheck
from schedulearn.scheduler.runtimes.exit_codes import FAILED, TAIL_BYTES, command_exit_code, why_alone, why_failed
from schedulearn.scheduler.runtimes.log_store import DEFAULT_CAP, LogStore
from schedulearn.scheduler.runtimes.pinning import check_task, complete_env
from schedulearn.scheduler.runtimes.process.boot import program
from schedulearn.scheduler.runtimes.process.code import unpack_code
from schedulearn.scheduler.runtimes.process.environments import Environments
from schedulearn.scheduler.runtimes.process.job_folders import JobsOnDisk, untracked_files
from schedulearn.scheduler.runtimes.process.keeper import BUSY, NOTES, RUNS
from schedulearn.scheduler.runtimes.process.layers import Layers
from schedulearn.scheduler.runtimes.process.shared_data import DataOnDisk
from schedulearn.scheduler.runtimes.process.watch import ProcessWatch, read_identity
from schedulearn.scheduler.runtimes.resources.process import LocalResources
from schedulearn.scheduler.runtimes.sdk import unpack_sdk
from schedulearn.scheduler.runtimes.terminals.process import LocalTerminals
from schedulearn.scheduler.runtimes.workspace import check_code
from schedulearn.worker.supervisor import JOINING

# Variables of the service's own environment that tasks get. Never all of them: they may hold passwords and tokens.
PASSED_ON = ("USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MARK = "SCHEDULEARN_TASK_DIR"  # in the environment of all processes of a task, to find leftover ones
log = logging.getLogger(__name__)

START_S = 30.0
KILL_S = 10.0
_TRASH = ".trash-"


class ProcessRuntime:
    """`Runtime` of this machine without an engine.

    `environments` maps image names to local environments: a prefix with `bin/`, and maybe `app/`, whose content
    appears in each task's working directory. Names of our own images mean the environments of their flavours, which
    `images.fetch` builds. All other names mean `horovod-cpu`, or the service's own environment for a job without a
    launcher (see `images.name_for`). `log_cap_bytes` limits the kept output of one task. Several objects, also in
    several processes, may use the same `data_dir` at the same time.
    """

    def __init__(
        self,
        host_id: str,
        data_dir: Path,
        environments: Mapping[str, Path] | None = None,
        *,
        log_cap_bytes: int = DEFAULT_CAP,
    ) -> None:
        self.host_id = host_id
        self._tasks = data_dir.absolute() / "tasks"
        self._log_cap = log_cap_bytes
        self._log_store = LogStore(data_dir.absolute() / "logs", log_cap_bytes)
        self.checkpoints, self.outputs = (
            JobsOnDisk(data_dir.absolute() / kind, self._has_tasks, self._remove_created)
            for kind in ("checkpoints", "outputs")
        )
        self.data = DataOnDisk(data_dir.absolute() / "shared-data", data_dir.absolute() / "outputs")
        self._sdk = data_dir.absolute() / "sdk"
        self._layers = Layers(data_dir.absolute() / "layers")
        self.images = Environments(self._tasks, environments or {}, self._layers)
        self.terminals = LocalTerminals(self._running_directory, self._processes_of)
        self.resources = LocalResources(self._running_keeper, data_dir)
        self._watch = ProcessWatch(lambda: (self._directory(name) for name in self._names()))
        self._tasks.mkdir(parents=True, exist_ok=True)
        self._log_store.root.mkdir(parents=True, exist_ok=True)
        for trash in self._tasks.glob(f"{_TRASH}*"):
            shutil.rmtree(trash, ignore_errors=True)

    def cuda_check(self, image: Callable[[], str]) -> CudaCheck | None:
        return None  # its environment may not be built yet, and a job notices the error just as quickly

    def survey(self) -> HostFacts:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return HostFacts(
            f"process {self._tasks}", cpus=os.cpu_count() or 0, memory_bytes=memory, shares_images=False, isolates=False
        )

    def observe(self) -> Sequence[ObservedTask]:
        self._make_folders()
        return [task for name in self._names() if (task := self._observe(name)) is not None]

    def disk(self) -> Disk:
        layers = self._layers.sizes()
        return Disk(
            images=tuple(layers),
            images_bytes=sum(each.bytes for each in layers),
            checkpoints=self.checkpoints.sizes(),
            outputs=self.outputs.sizes(),
            data=self.data.sizes(),
        )

    def start(self, task: TaskSpec) -> None:
        check_task(task)
        check_code(task)
        if task.run_as is not None and task.run_as.uid != os.geteuid():
            raise StartRefused(
                f"{task.run_as.user} has uid {task.run_as.uid}, but local processes run as the service's account: the "
                "job needs a host with a Docker Engine",
                field="mounts",
            )
        deadline = time.monotonic() + START_S
        while True:
            observed = self._observe(task.task_id)
            if observed is not None and observed.state is not EngineState.CREATED:
                return
            if self._launch(task) == RUNS:
                self._watch.wake()
                return
            # Another supervisor holds the lock: it has just started, or is about to end.
            if time.monotonic() > deadline:
                raise RuntimeFault(f"{task.task_id} is locked by another process that does not start it")
            time.sleep(0.02)

    def stop(self, task_id: str, grace_s: float) -> None:
        if parse_task_id(task_id) is None:
            return
        self.resume(task_id)
        try:
            self._end_keeper(self._directory(task_id), max(0.0, grace_s))
        except FileNotFoundError:
            return  # removed meanwhile
        observed = self._observe(task_id)
        if observed is not None and observed.state is EngineState.RUNNING:
            raise RuntimeFault(f"{task_id} can't be killed: a process of it hangs in the kernel")

    def pause(self, task_id: str) -> None:
        if (command := self._command(task_id)) is None:
            return
        if not procfs.suspend_all(command, lambda: self._family(task_id, command), KILL_S):
            raise RuntimeFault(
                f"{task_id} can't be paused: a process of it hangs in the kernel, or it keeps starting new ones"
            )
        self._watch.wake()

    def resume(self, task_id: str) -> None:
        command = self._command(task_id)
        if command is not None and procfs.is_stopped(command):
            procfs.resume_all(command, self._family(task_id, command))
            self._watch.wake()

    def remove(self, task_id: str) -> None:
        if parse_task_id(task_id) is None:
            return
        directory = self._directory(task_id)
        while directory.exists():
            self.stop(task_id, 0.0)
            trash = directory.with_name(f"{_TRASH}{task_id}-{os.getpid()}-{time.monotonic_ns()}")
            lock = None
            try:
                lock = procfs.try_lock(directory / "lock")
                if lock is None:
                    continue  # the task was started in between
                directory.rename(trash)
            except FileNotFoundError:
                return  # another thread or process removed it
            finally:
                if lock is not None:
                    os.close(lock)
            shutil.rmtree(trash, ignore_errors=True)
            self._watch.wake()

    def untracked_files(self, task_id: str) -> Sequence[UntrackedFile]:
        observed = self._observe(task_id) if parse_task_id(task_id) else None
        if observed is None or observed.state is not EngineState.EXITED:
            return ()
        try:
            return untracked_files(self._directory(task_id) / "work", observed.started_at or 0.0)
        except FileNotFoundError:
            return ()  # removed meanwhile

    def logs(self, task_id: str, follow: bool) -> Iterator[bytes]:
        if parse_task_id(task_id) is None:
            return iter(())

        def stopped() -> bool:
            return not follow or self._watch.closed.is_set() or self._is_over(task_id)

        return self._log_store.follow(task_id, stopped=stopped)

    def watch(self) -> Iterator[bool]:
        return self._watch.changes()

    def close(self) -> None:
        self._watch.close()

    def _end_keeper(self, directory: Path, grace_s: float) -> None:
        """End the task's supervisor, and return when none holds the task.

        `_observe` cleans up after a supervisor that was killed."""
        deadline = time.monotonic() + grace_s + KILL_S
        asked = killed = False
        while procfs.is_locked(directory / "lock"):
            keeper = read_identity(directory / "keeper.json")
            fd = procfs.open_process(keeper) if keeper else None
            if fd is None:
                time.sleep(0.005)  # about to write its identity, or about to end
            else:
                try:
                    if not asked:
                        with suppress(OSError):  # a full disk: the supervisor uses its default grace period
                            procfs.write_json(str(directory / "grace.json"), grace_s, durable=False)
                        signal.pidfd_send_signal(fd, signal.SIGTERM)
                        asked = True
                    poller = select.poll()
                    poller.register(fd, select.POLLIN)
                    poller.poll(max(0.0, deadline - time.monotonic()) * 1000)
                except ProcessLookupError:
                    pass
                finally:
                    os.close(fd)
            if time.monotonic() > deadline:
                if keeper is None or killed:
                    raise RuntimeFault(f"{directory.name} can't be stopped: its lock is held by an unknown process")
                procfs.send_signal(keeper, signal.SIGKILL)
                killed, deadline = True, time.monotonic() + KILL_S

    def _launch(self, task: TaskSpec) -> str:
        """Start a supervisor and return its answer."""
        prefix = self.images.find(task.image)
        if prefix is None:
            raise ImageUnavailable(f"the local environment for image {task.image!r} is missing: fetch it first")
        if lacking := next((target for target, key in task.data.items() if not self.data.has(key)), None):
            raise ImageUnavailable(f"the data for {lacking} is not on {self.host_id}: fetch it first")
        directory = self._directory(task.task_id)
        try:
            self._prepare(task, directory, prefix)
            with (
                open(directory / "keeper.err", "a+b") as errors,
                subprocess.Popen(
                    program("keeper", str(directory), str(self._log_store.root), str(self._log_cap)),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    cwd=directory,
                    env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
                    start_new_session=True,
                    umask=umask_of_user(),  # the user's umask applies to files that a job writes elsewhere
                ) as launcher,
            ):
                try:
                    answer = launcher.communicate(timeout=START_S)[0].decode().strip()
                except subprocess.TimeoutExpired as error:
                    launcher.kill()
                    raise RuntimeFault(
                        f"the supervisor of {task.task_id} did not answer within {START_S:.0f} s"
                    ) from error
                errors.seek(0)
                words = errors.read()[-2000:].decode(errors="replace").strip()
        except OSError as error:
            raise RuntimeFault(f"{task.task_id} can't be started: {error}") from error
        if answer not in (RUNS, BUSY):
            raise RuntimeFault(f"the supervisor of {task.task_id} failed: {words or 'no output'}")
        return answer

    def _prepare(self, task: TaskSpec, directory: Path, prefix: Path) -> None:
        work = directory / "work"
        self._make_folders()
        directory.mkdir(exist_ok=True)
        (directory / NOTES).mkdir(exist_ok=True)
        self._log_store.path(task.task_id).mkdir(exist_ok=True)
        if task.code:
            unpack_code(Path(task.code), work)
        else:
            self._link_app(prefix / "app", work)
        base = {
            **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
            "HOME": os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir,
            "PATH": f"{self._layers.path_of(prefix)}:{SYSTEM_PATH}",
            "VIRTUAL_ENV": str(prefix),
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
        }
        base.setdefault("LANG", "C.UTF-8")
        kept = (str(folders.make(task.job_id)) for folders in (self.checkpoints, self.outputs))
        env = {
            **complete_env(task, base, str(unpack_sdk(self._sdk)), *kept),
            MARK: str(directory),
            JOINING: str(directory / NOTES),
        }
        spec = {"argv": list(task.argv), "env": env, "work": str(work)}
        procfs.write_json(str(directory / "spec.json"), spec, durable=False)

    def _link_app(self, app: Path, work: Path) -> None:
        """Link the content of the environment's `app` folder into the task's working directory."""
        work.mkdir(exist_ok=True)
        for entry in app.iterdir() if app.is_dir() else ():
            link = work / entry.name
            if not link.is_symlink() and not link.exists():
                try:
                    link.symlink_to(entry)
                except FileExistsError:
                    pass  # another thread starts the same task

    def _observe(self, task_id: str) -> ObservedTask | None:
        """Return the task's state from its files.

        The files are read in an order that gives a correct state even while a supervisor writes them."""
        directory = self._directory(task_id)
        if not directory.is_dir():
            return None
        held = procfs.is_locked(directory / "lock")
        ran = procfs.read_json(str(directory / "pid.json"))
        if (record := procfs.read_json(str(directory / "exit.json"))) is not None:
            return self._ended(task_id, record)
        if ran is None:
            return ObservedTask(task_id, EngineState.CREATED)
        paused = procfs.is_stopped(procfs.Identity(*ran[:3]))
        running = ObservedTask(task_id, EngineState.RUNNING, started_at=ran[3], paused=paused)
        if held:
            return running
        try:
            lock = procfs.try_lock(directory / "lock")
        except FileNotFoundError:
            return None  # removed meanwhile
        if lock is None:
            return running
        try:
            record = procfs.read_json(str(directory / "exit.json")) or self._bury(task_id, ran)
        finally:
            os.close(lock)
        return self._ended(task_id, record) if record else running

    def _ended(self, task_id: str, record: dict[str, Any]) -> ObservedTask:
        lost, code = record.get("lost", False), record.get("exit_code")
        tail = b"" if code is None else self._log_store.tail(task_id, TAIL_BYTES)
        if code == FAILED:
            code = command_exit_code(FAILED, tail)
        why = "its supervisor process was killed, or the machine restarted" if lost else record.get("error", "")
        return ObservedTask(
            task_id,
            EngineState.LOST if lost else EngineState.EXITED,
            exit_code=code,
            started_at=record.get("started_at"),
            finished_at=record.get("finished_at"),
            error=why or (why_failed(tail) if code else why_alone(tail)),
        )

    def _bury(self, task_id: str, ran: list[Any]) -> dict[str, Any] | None:
        """Record a task that ran as lost, after its supervisor ended without a record.

        Kills the remaining processes. The caller holds the lock. Returns None if a process is still ending; the caller
        tries again later."""
        directory = self._directory(task_id)
        command = procfs.Identity(*ran[:3])
        here = command.boot == procfs.boot_id()
        if here and not procfs.kill_all(lambda: self._family(task_id, command), timeout_s=2.0):
            return None
        record = {"lost": True, "started_at": ran[3], "finished_at": time.time()}
        try:
            self._log_store.writer(task_id).close()
            procfs.write_json(str(directory / "exit.json"), record)
        except BlockingIOError:
            return None
        except OSError:
            pass  # a full disk: the record is written once there is space, and the task must be reported even so
        return record

    def _command(self, task_id: str) -> procfs.Identity | None:
        """Return the identity of the task's command, if it is running."""
        ran = procfs.read_json(str(self._directory(task_id) / "pid.json")) if parse_task_id(task_id) else None
        command = procfs.Identity(*ran[:3]) if ran else None
        return command if command and procfs.is_alive(command) else None

    def _family(self, task_id: str, command: procfs.Identity) -> list[procfs.Identity]:
        return procfs.find_family(command, f"{MARK}={self._directory(task_id)}".encode())

    def _running_keeper(self, task_id: str) -> procfs.Identity | None:
        """Return the supervisor of a task whose command is running."""
        if self._command(task_id) is None:
            return None
        keeper = read_identity(self._directory(task_id) / "keeper.json")
        return keeper if keeper is not None and procfs.is_alive(keeper) else None

    def _running_directory(self, task_id: str) -> Path | None:
        command = self._command(task_id)
        return self._directory(task_id) if command is not None and not procfs.is_stopped(command) else None

    def _processes_of(self, task_id: str) -> list[procfs.Identity]:
        command = self._command(task_id)
        return self._family(task_id, command) if command is not None else []

    def _is_over(self, task_id: str) -> bool:
        if procfs.is_locked(self._directory(task_id) / "lock"):
            return False
        observed = self._observe(task_id)
        return observed is None or observed.state in (EngineState.EXITED, EngineState.LOST)

    def _has_tasks(self, job_id: str) -> bool:
        return any((parse_task_id(name) or ("",))[0] == job_id for name in self._names())

    def _remove_created(self, job_id: str) -> None:
        """Remove a job's tasks that never ran because their starts were interrupted."""
        for name in self._names():
            task = self._observe(name) if (parse_task_id(name) or ("",))[0] == job_id else None
            if task is not None and task.state is EngineState.CREATED:
                self.remove(name)

    def _names(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self._tasks) if parse_task_id(name))
        except FileNotFoundError:
            return []  # the next `observe` creates it again

    def _make_folders(self) -> None:
        """Create the folders again if they were removed while the service runs."""
        for folder, lost in ((self._tasks, "Tasks that ran in it are lost."), (self._log_store.root, "Logs are lost.")):
            if not folder.is_dir():
                log.error("the folder %s was removed, and is created again. %s", folder, lost)
                folder.mkdir(parents=True, exist_ok=True)

    def _directory(self, task_id: str) -> Path:
        return self._tasks / task_id
