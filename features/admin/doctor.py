"""Diagnosis and repair of a data folder and its hosts."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from schedulearn.api.settings import Settings
from schedulearn.metrics.probe import nvml
from schedulearn.scheduler.cluster import lock_data_folder
from schedulearn.scheduler.core.job_image import layered
from schedulearn.scheduler.core.states import TERMINAL
from schedulearn.scheduler.errors import ObjectFault, RuntimeFault, SchedulearnError, StoreError
from schedulearn.scheduler.hosts.embedded import HOST_ID
from schedulearn.scheduler.private_files import close_to_others
from schedulearn.scheduler.runtimes.contract import Runtime
from schedulearn.scheduler.runtimes.process.runtime import ProcessRuntime
from schedulearn.scheduler.store.db import BASELINE, HEAD, Database, sqlite_url

MIN_FREE = 1 << 30
GRACE_S = 10.0

_ENDED = ", ".join(f"'{state}'" for state in sorted(TERMINAL))
_STALE_LEASES = "task_id NOT IN (SELECT id FROM task WHERE state != 'ended')"


@dataclass(frozen=True)
class Finding:
    check: str
    what: str
    advice: str = ""
    """Instruction for the operator; empty if `mend` fixes the problem."""
    mend: Callable[[], object] | None = None


@dataclass(frozen=True)
class HostToSee:
    id: str
    runtime: str
    address: str
    tls: str | None


MakeRuntime = Callable[[HostToSee, str], Runtime]
"""(host, cluster id) -> the runtime of the host."""


class Doctor:
    """Diagnosis of a data folder and its hosts.

    It opens the database read-only. Only `mend` changes something, and only while no service runs. Raises StoreError
    without a database."""

    def __init__(self, data_dir: Path, make_runtime: MakeRuntime | None = None) -> None:
        self._data_dir = data_dir
        self._file = data_dir / "schedulearn.db"
        self._make_runtime = make_runtime or self._runtime
        self._open = ExitStack()
        if not self._file.exists():
            raise StoreError(f"there is no schedulearn.db in {data_dir}: name the data folder by --data")

    def __enter__(self) -> Doctor:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def find(self) -> list[Finding]:
        found = [*self._permissions(), *self._disk()]
        if damage := self._damage():
            return [*found, damage]
        with closing(self._connect()) as connection:
            found += self._schema(connection)
            if not any(finding.check == "schema" for finding in found):
                found += [*self._rows(connection), *self._hosts(connection)]
        return found

    def mend(self, findings: Iterable[Finding]) -> dict[Finding, str]:
        """Fix the findings that can be fixed; return each with its error, empty if it is fixed.

        Raises StoreError while a service runs."""
        results: dict[Finding, str] = {}
        with lock_data_folder(self._data_dir):
            for finding in findings:
                if finding.mend is None:
                    continue
                try:
                    finding.mend()
                    results[finding] = ""
                except (SchedulearnError, sqlite3.Error, OSError) as error:
                    results[finding] = str(error)
        return results

    # The data folder.

    def _permissions(self) -> Iterator[Finding]:
        others = stat.S_IRWXG | stat.S_IRWXO
        kept = ("token", "secrets.key", "tls/key.pem")
        for path in (self._file, *(self._data_dir / name for name in kept)):
            if path.exists() and path.stat().st_mode & others:
                what = f"other users of this machine may open {path}"
                yield Finding("permissions", what, mend=partial(close_to_others, self._data_dir))
        if not os.access(self._data_dir, os.W_OK):
            yield Finding("permissions", f"{self._data_dir} can't be written to", "Give it to the service's user.")

    def _disk(self) -> Iterator[Finding]:
        free = shutil.disk_usage(self._data_dir).free
        if free < MIN_FREE:
            what = f"{free >> 20} MiB are free on the disk of {self._data_dir}"
            yield Finding("disk", what, "Make room: see log_room, code_room and checkpoint_copies in the settings.")

    # The database.

    def _connect(self, mode: str = "ro") -> sqlite3.Connection:
        return sqlite3.connect(f"{self._file.absolute().as_uri()}?mode={mode}", uri=True, timeout=30)

    def _damage(self) -> Finding | None:
        try:
            with closing(self._connect()) as connection:
                [(found, *_), *_] = connection.execute("PRAGMA quick_check(1)")
        except sqlite3.Error as error:
            found = str(error)
        if found == "ok":
            return None
        advice = "Move schedulearn.db* away and restore the last backup: schedulearn restore FILE --data FOLDER."
        return Finding("database", f"the database is damaged: {str(found).splitlines()[-1]}", advice)

    def _schema(self, connection: sqlite3.Connection) -> Iterator[Finding]:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        version = None
        if "alembic_version" in tables:
            version = next((found for (found,) in connection.execute("SELECT version_num FROM alembic_version")), None)
        what = f"the database has the schema {version or 'of no version'}; this version has {HEAD}"
        if (version or "") < BASELINE and tables:
            yield Finding("schema", what, "Start Schedulearn 0.1.0 with it once, then this version.")
        elif version is None or version < HEAD:
            yield Finding("schema", what, mend=lambda: Database(sqlite_url(self._data_dir)).close())
        elif version > HEAD:
            what = f"the database has the schema {version}, of a newer version than this one ({HEAD})"
            yield Finding("schema", what, "Install that version again.")

    def _rows(self, connection: sqlite3.Connection) -> Iterator[Finding]:
        leases = list(connection.execute(f"SELECT gpu_uuid FROM lease WHERE {_STALE_LEASES}"))  # noqa: S608
        if leases:
            what = f"{len(leases)} GPU leases of tasks that have ended"
            yield Finding("leases", what, mend=partial(self._change, f"DELETE FROM lease WHERE {_STALE_LEASES}"))  # noqa: S608
        for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check").fetchmany(20):
            what = f"row {row} of {table} refers to a row of {parent} that is not there"
            yield Finding("rows", what, mend=partial(self._change, f'DELETE FROM "{table}" WHERE rowid = ?', row))  # noqa: S608
        live = "SELECT task.id FROM task JOIN job ON job.id = task.job_id WHERE task.state != 'ended' AND job.state IN"
        for (task,) in connection.execute(f"{live} ({_ENDED})").fetchmany(20):
            what = f"task {task} has not ended, and its job has"
            change = "UPDATE task SET state = 'ended', outcome = 'cancelled' WHERE id = ?"
            yield Finding("rows", what, mend=partial(self._change, change, task))

    def _change(self, statement: str, *values: object) -> None:
        with closing(self._connect("rw")) as connection, connection:
            connection.execute(statement, values)

    # The hosts.

    def _hosts(self, connection: sqlite3.Connection) -> Iterator[Finding]:
        rows = connection.execute("SELECT value FROM meta WHERE key = 'cluster_id'").fetchone()
        if rows is None:
            return
        live = {task for (task,) in connection.execute("SELECT id FROM task WHERE state != 'ended'")}
        jobs = {job for (job,) in connection.execute("SELECT id FROM job")}
        wanted = connection.execute(
            f"SELECT DISTINCT container_image, launcher, layer FROM job WHERE state NOT IN ({_ENDED})"  # noqa: S608
        ).fetchall()
        for row in connection.execute("SELECT id, runtime, address, tls FROM host").fetchall():
            host = HostToSee(*row)
            try:
                runtime = self._make_runtime(host, rows[0])
                self._open.callback(runtime.close)
                yield from _on_host(host, runtime, live, jobs, wanted)
                if host.id == HOST_ID:
                    yield from _own_gpus(connection)
            except RuntimeFault as fault:
                yield Finding("hosts", f"{host.id} does not answer: {fault}", "See docs/hosts.md.")

    def _runtime(self, host: HostToSee, cluster_id: str) -> Runtime:
        if host.runtime != "docker":
            return ProcessRuntime(host.id, self._data_dir)
        from schedulearn.scheduler.runtimes.docker.runtime import DockerRuntime  # slow to import, not always needed

        tls = Path(host.tls) if host.tls else None
        return DockerRuntime(host.id, host.address, self._data_dir, cluster_id, tls=tls)


def sign_in_findings(settings: Settings) -> Iterator[Finding]:
    """Yield what keeps people from signing in by the provider that the settings name."""
    if settings.oidc_issuer is None:
        return
    from schedulearn.api.outgoing.openid import Provider, ProviderDownError

    try:
        Provider(settings, "").check()
    except ProviderDownError as error:
        yield Finding("sign-in", error.detail, "See docs/sign-in.md. Tokens and existing sessions still work.")


def _on_host(
    host: HostToSee, runtime: Runtime, live: set[str], jobs: set[str], wanted: Iterable[tuple[str, str, str]]
) -> Iterator[Finding]:
    for problem in runtime.survey().problems:
        yield Finding(problem.code, f"{host.id}: {problem.message}", "See docs/hosts.md.")
    for task in runtime.observe():
        if task.stuck:
            address = "" if host.address.startswith("unix:///var/run/") else f"-H {host.address} "
            advice = f"Remove it: docker {address}rm -f {task.task_id}. If that fails, restart Docker there."
            yield Finding("containers", f"{host.id}: container {task.task_id} {task.stuck}", advice)
        elif task.task_id not in live:
            what = f"{host.id}: container {task.task_id} ({task.state}) belongs to no task that should run"
            yield Finding("orphans", what, mend=partial(_remove, runtime, task.task_id))
    for kind, folders in {"checkpoints": runtime.checkpoints, "outputs": runtime.outputs}.items():
        for job in sorted(set(folders.jobs()) - jobs):
            what = f"{host.id}: {kind} of the job {job}, which is not in the database"
            yield Finding("volumes", what, mend=partial(folders.drop, job))
    yield from _missing_images(host, runtime, wanted)


def _own_gpus(connection: sqlite3.Connection) -> Iterator[Finding]:
    """Yield why the GPUs of this machine can't be used.

    Nothing is wrong if they are simulated, or if there are none and no driver."""
    kinds = "SELECT simulated FROM gpu WHERE host_id = ? AND present"
    simulated = [bool(row) for (row,) in connection.execute(kinds, (HOST_ID,))]
    if any(simulated) or not (simulated or nvml.has_driver()):
        return
    if problem := nvml.find_gpus().problem:
        yield Finding("gpus", f"{HOST_ID}: {problem}", "Jobs with GPUs wait until `nvidia-smi` works there.")


def _remove(runtime: Runtime, task_id: str) -> None:
    runtime.stop(task_id, GRACE_S)
    runtime.remove(task_id)


def _missing_images(host: HostToSee, runtime: Runtime, wanted: Iterable[tuple[str, str, str]]) -> Iterator[Finding]:
    for image, launcher, layer in wanted:
        name = layered(runtime.images.name_for(image, launcher), layer)
        try:
            there = runtime.images.has(name)
        except ObjectFault as fault:
            yield Finding("images", f"{host.id}: the image {name} can't be looked for: {fault}", "See docs/hosts.md.")
            continue
        if not there:
            what = f"{host.id}: the image {name}, which unfinished jobs need, is not there"
            yield Finding("images", what, "It is fetched when such a job is to start there; nothing needs to be done.")


def as_json(findings: Iterable[Finding], results: Mapping[Finding, str]) -> list[dict[str, object]]:
    return [
        {
            "check": finding.check,
            "what": finding.what,
            "advice": finding.advice,
            "mendable": finding.mend is not None,
            "mended": results.get(finding) == "",
            "problem": results.get(finding, ""),
        }
        for finding in findings
    ]
