"""Access to a job's files: list, read and pack, on any host.

A path begins with `outputs` or `checkpoints`. Checkpoints are on one host. Outputs may be on several: where the job's
first task ran last, and where its other ranks wrote. The host of the first task takes precedence; the files of the
others are added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from schedulearn.scheduler.errors import FilesGoneError, InvalidError, NotFoundError, RuntimeFault
from schedulearn.scheduler.hosts.agent import HostAgent
from schedulearn.scheduler.runtimes.contract import FileEntry, FileKind, FolderView, JobFolders, Runtime
from schedulearn.scheduler.runtimes.paths import parts_of, resolve
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.moved_outputs import hosts_with_outputs

OUTPUTS, CHECKPOINTS = "outputs", "checkpoints"


@dataclass(frozen=True)
class JobFolderListing:
    entries: Sequence[tuple[str, FileEntry]]
    """(host, file), by name. If several hosts have a file of the same name, the first host's."""
    more: bool
    """True if there are further entries."""
    of_file: bool
    """True if the path is a file, which is then the only entry."""
    hosts: Sequence[str]
    """Hosts that have the folder."""
    away: Sequence[str]
    """Hosts that may have files of the job, and do not answer."""


@dataclass
class OpenFile:
    """File or folder that is ready to be read. Close it."""

    path: str
    """Path with all links resolved."""
    entry: FileEntry
    _view: FolderView
    _stack: ExitStack = field(default_factory=ExitStack)

    def read(self, offset: int, length: int) -> Iterator[bytes]:
        """Yield `length` bytes of the file, from `offset`.

        Raises RuntimeFault before the last piece if the file has changed meanwhile: the pieces before may be of two
        versions."""
        last = b""
        for piece in self._view.read(self.path, self.entry.bytes, offset, length):
            if last:
                yield last
            last = piece
        if self._view.stat(self.path) != self.entry:
            raise RuntimeFault(f"{self.path} changed while it was read: try again")
        yield last

    def pack(self) -> Iterator[bytes]:
        return self._view.pack(self.path)

    def close(self) -> None:
        self._stack.close()


@dataclass(frozen=True)
class _Place:
    """Entry at a path on one host."""

    host: str
    path: str
    entry: FileEntry
    view: FolderView


class JobFiles:
    def __init__(self, db: Database, agents: Callable[[], Mapping[str, HostAgent]]) -> None:
        self._db = db
        self._agents = agents

    def listing(self, job_id: str, path: str, *, host: str | None, after: str, limit: int) -> JobFolderListing:
        """List a folder in pages; with a `limit` of 0, return only its hosts.

        For a file the only entry is the file. Raises NotFoundError, FilesGoneError, and InvalidError for a path that
        leads out of the folder. Raises RuntimeFault if only a host that does not answer may have the path."""
        parts = parts_of(path)
        if not parts:
            with self._db.read() as db:
                repository.get_job(db, job_id)
            tops = [("", FileEntry(name, FileKind.FOLDER)) for name in (CHECKPOINTS, OUTPUTS) if name > after]
            return JobFolderListing(tops, more=False, of_file=False, hosts=(), away=())
        with ExitStack() as stack:
            places, away = self._places(stack, job_id, parts, host)
            if places[0].entry.kind is not FileKind.FOLDER:
                first = places[0]
                return JobFolderListing(
                    [(first.host, first.entry)], more=False, of_file=True, hosts=[first.host], away=away
                )
            folders = [place for place in places if place.entry.kind is FileKind.FOLDER]
            found: dict[str, tuple[str, FileEntry]] = {}
            for place in folders if limit else ():
                for entry in place.view.entries(place.path, after, limit + 1):
                    found.setdefault(entry.name, (place.host, entry))
        entries = [found[name] for name in sorted(found)]
        hosts = [place.host for place in folders]
        return JobFolderListing(entries[:limit], more=len(entries) > limit, of_file=False, hosts=hosts, away=away)

    def open(self, job_id: str, path: str, *, host: str | None) -> OpenFile:
        """Open a file or a folder. Raises the same errors as `listing`.

        Also raises InvalidError for the empty path and for a path that is neither a file nor a folder."""
        parts = parts_of(path)
        if not parts:
            raise InvalidError(
                f"the path must begin with {OUTPUTS} or {CHECKPOINTS}, the folders of a job", field="path"
            )
        with ExitStack() as stack:
            first = self._places(stack, job_id, parts, host)[0][0]
            if first.entry.kind not in (FileKind.FILE, FileKind.FOLDER):
                raise InvalidError(f"{path} can't be read: it is neither a file nor a folder", field="path")
            return OpenFile(first.path, first.entry, first.view, stack.pop_all())

    def _places(
        self, stack: ExitStack, job_id: str, parts: tuple[str, ...], host: str | None
    ) -> tuple[list[_Place], list[str]]:
        """Return the places of a path, at least one, and the hosts that do not answer."""
        top, inner = parts[0], parts[1:]
        hosts, over = self._hosts(job_id, top)
        if host is not None:
            if host not in hosts:
                raise NotFoundError(
                    f"job {job_id} has no {top} on {host!r}; hosts that have them: {', '.join(hosts) or 'none'}"
                )
            hosts = [host]
        agents = self._agents()
        views: dict[str, FolderView] = {}
        away: list[str] = []
        for name in hosts:
            agent = agents.get(name)
            if agent is None or agent.status.observation is None:
                away.append(name)
            elif (view := stack.enter_context(_folders(agent.runtime, top).view(job_id))) is not None:
                views[name] = view
        places, missing = _find(views, inner)
        if places:
            return places, away
        if away:
            words = [f"{name} ({'does not answer' if name in agents else 'removed'})" for name in away]
            raise RuntimeFault(f"the {top} of job {job_id} can't be read: they are on {', '.join(words)}")
        if missing is not None:
            raise NotFoundError(f"there is no {'/'.join(parts)} among the files of job {job_id}") from missing
        raise _no_folder(job_id, top, hosts, over)

    def _hosts(self, job_id: str, top: str) -> tuple[list[str], bool]:
        """Return the hosts that may have the files, and whether the job has ended."""
        with self._db.read() as db:
            job = repository.get_job(db, job_id)
            if top not in (OUTPUTS, CHECKPOINTS):
                raise NotFoundError(f"unknown folder {top!r}: a job has {OUTPUTS} and {CHECKPOINTS}")
            hosts = hosts_with_outputs(db, job_id)
        return hosts[:1] if top == CHECKPOINTS else hosts, job.finished_at is not None


def _folders(runtime: Runtime, top: str) -> JobFolders:
    return runtime.checkpoints if top == CHECKPOINTS else runtime.outputs


def _find(views: Mapping[str, FolderView], inner: tuple[str, ...]) -> tuple[list[_Place], NotFoundError | None]:
    places: list[_Place] = []
    missing: NotFoundError | None = None
    for host, view in views.items():
        try:
            path, entry = resolve(inner, view.stat, view.seen_at)
        except NotFoundError as error:
            missing = error
        else:
            places.append(_Place(host, path, entry, view))
    return places, missing


def _no_folder(job_id: str, top: str, hosts: Sequence[str], over: bool) -> NotFoundError:
    if not hosts or not over:
        return NotFoundError(f"job {job_id} has no {top} yet: it has not started")
    rule = "keep_outputs, output_room" if top == OUTPUTS else "keep_checkpoints, checkpoint_room"
    return FilesGoneError(
        f"the {top} of job {job_id} are no longer there: they are kept for a limited time after its "
        f"end (settings {rule})"
    )
