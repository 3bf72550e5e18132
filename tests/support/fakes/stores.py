"""Images, folders of jobs and shared data of the fake runtime: files in memory."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from schedulearn.scheduler.core.job_image import layer_tag, split_layered
from schedulearn.scheduler.core.task import EngineState, TaskSpec
from schedulearn.scheduler.errors import ImageUnavailable, RuntimeFault
from schedulearn.scheduler.runtimes.archives import CHUNK, reading, to_the_end
from schedulearn.scheduler.runtimes.contract import (
    FetchProgress,
    FileEntry,
    FileKind,
    ListedImage,
    RegistryLogin,
    Stored,
)


class Owner(Protocol):
    """What these need of their runtime."""

    def called(self, method: str, argument: str = "") -> AbstractContextManager[None]: ...

    def tasks(self, state: EngineState | None = None) -> list[TaskSpec]: ...

    def forget_created(self, job_id: str) -> None: ...


@dataclass(frozen=True)
class _File:
    content: bytes
    modified_at: float


@dataclass
class _Folder:
    changed_at: float
    files: dict[str, _File] = field(default_factory=dict)


class FakeFolders:
    """The `JobFolders` of one kind."""

    def __init__(self, runtime: Owner, kind: str, clock: Callable[[], float]) -> None:
        self._runtime = runtime
        self._kind = kind
        self._clock = clock
        self._kept: dict[str, _Folder] = {}

    def jobs(self) -> Sequence[str]:
        with self._called("jobs"):
            return sorted(self._kept)

    def drop(self, job_id: str) -> None:
        with self._called("drop", job_id):
            if not any(task.job_id == job_id for task in self._runtime.tasks()):
                self._kept.pop(job_id, None)

    def changed_at(self, job_id: str) -> float | None:
        with self._called("changed_at", job_id):
            kept = self._kept.get(job_id)
            return kept.changed_at if kept else None

    def save(self, job_id: str) -> Iterator[bytes]:
        with self._called("save", job_id):
            kept = self._kept.get(job_id)
        if kept is not None:
            yield from FakeView(f"/fake/{self._kind}", kept.files).pack("")

    def load(self, job_id: str, archive: Iterable[bytes], *, keep: bool = False) -> None:
        with self._called("load", job_id):
            self._runtime.forget_created(job_id)
            if any(task.job_id == job_id for task in self._runtime.tasks()):
                raise RuntimeFault(f"a task of {job_id} still uses its {self._kind}")
            before = self._kept.get(job_id) if keep else None
            if not keep:
                self._kept.pop(job_id, None)
        files = dict(before.files) if before else {}
        try:
            with reading(iter(archive)) as tar:
                for member in tar:
                    if (content := tar.extractfile(member)) is not None:
                        files[member.name.removeprefix("./")] = _File(content.read(), float(member.mtime))
        except tarfile.TarError as error:
            raise RuntimeFault(f"the {self._kind} of {job_id} can't be unpacked: {error}") from error
        self._kept[job_id] = _Folder(self._clock(), files)

    @contextmanager
    def view(self, job_id: str) -> Iterator[FakeView | None]:
        with self._called("view", job_id):
            kept = self._kept.get(job_id)
        yield FakeView(f"/fake/{self._kind}", kept.files) if kept else None

    # What a test, or the runtime, does to them.

    def is_there(self, job_id: str) -> bool:
        return job_id in self._kept

    def make(self, job_id: str) -> None:
        self._kept.setdefault(job_id, _Folder(self._clock()))

    def write(self, job_id: str, name: str, content: bytes) -> None:
        """The job's task writes a file; its folders come with it."""
        files = self._kept[job_id].files if job_id in self._kept else {}
        self._kept[job_id] = _Folder(self._clock(), {**files, name: _File(content, self._clock())})

    def content(self, job_id: str, name: str) -> bytes | None:
        kept = self._kept.get(job_id)
        return kept.files[name].content if kept and name in kept.files else None

    def sizes(self) -> tuple[Stored, ...]:
        return tuple(
            Stored(job, sum(len(file.content) for file in kept.files.values()))
            for job, kept in sorted(self._kept.items())
        )

    def _called(self, method: str, argument: str = "") -> AbstractContextManager[None]:
        return self._runtime.called(f"{self._kind}.{method}", argument)


class FakeView:
    """The `FolderView` of files in memory. Their times are those of their folders, too."""

    def __init__(self, seen_at: str, files: dict[str, _File]) -> None:
        self._seen_at = seen_at
        self._files = files

    @property
    def seen_at(self) -> str:
        return self._seen_at

    def stat(self, path: str) -> FileEntry | None:
        name = path.rpartition("/")[2]
        if (file := self._files.get(path)) is not None:
            return FileEntry(name, FileKind.FILE, len(file.content), file.modified_at)
        inside = [file for each, file in self._files.items() if not path or each.startswith(f"{path}/")]
        if not inside and path:
            return None
        return FileEntry(name, FileKind.FOLDER, 0, max((file.modified_at for file in inside), default=0.0))

    def entries(self, path: str, after: str, limit: int) -> list[FileEntry]:
        start = f"{path}/" if path else ""
        names = {each.removeprefix(start).partition("/")[0] for each in self._files if each.startswith(start)}
        found = (self.stat(f"{start}{name}") for name in sorted(name for name in names if name > after)[:limit])
        return [entry for entry in found if entry is not None]

    def read(self, path: str, size: int, offset: int, length: int) -> Iterator[bytes]:
        file = self._files.get(path)
        if file is None or len(file.content) != size or offset + length > size:
            raise RuntimeFault(f"{path} changed while it was read: try again")
        for begin in range(offset, offset + length, CHUNK):
            yield file.content[begin : min(begin + CHUNK, offset + length)]

    def pack(self, path: str) -> Iterator[bytes]:
        start = f"{path}/" if path else ""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for each, file in sorted(self._files.items()):
                if each.startswith(start):
                    info = tarfile.TarInfo(f"./{each.removeprefix(start)}")
                    info.size, info.mtime = len(file.content), file.modified_at
                    tar.addfile(info, io.BytesIO(file.content))
        yield buffer.getvalue()


class FakeData:
    """The `SharedData` of the fake runtime."""

    def __init__(self, runtime: Owner, outputs: FakeFolders) -> None:
        self._runtime = runtime
        self._outputs = outputs
        self._kept: dict[str, dict[str, _File] | str] = {}
        """Files, or the id of the job whose outputs it is."""
        self._begun: dict[str, dict[str, dict[str, _File]]] = {}
        """Parts by name, with their files."""

    def all_keys(self) -> Sequence[str]:
        with self._called("all_keys"):
            return sorted(self._kept)

    def has(self, key: str) -> bool:
        with self._called("has", key):
            return self.holds(key)

    def seen_at(self, key: str, target: str) -> str:
        return target

    def load(self, key: str, archives: Iterable[Iterable[bytes]], parts: Sequence[str] | None = None) -> None:
        with self._called("load", key):
            if self.holds(key):
                return
        begun = self._begun.setdefault(key, {}) if parts is not None else {}
        files: dict[str, _File] = {name: file for part in begun.values() for name, file in part.items()}
        try:
            for number, archive in enumerate(archives):
                came: dict[str, _File] = {}
                with reading(to_the_end(archive)) as tar:
                    for member in tar:
                        if (content := tar.extractfile(member)) is not None:
                            came[member.name.removeprefix("./")] = _File(content.read(), float(member.mtime))
                files |= came
                if parts is not None:
                    begun[parts[number]] = came
        except tarfile.TarError as error:
            raise RuntimeFault(f"{key} can't be unpacked: {error}") from error
        self._kept[key] = files
        self._begun.pop(key, None)

    def begun(self, key: str) -> Set[str]:
        with self._called("begun", key):
            return frozenset(self._begun.get(key, {}))

    def unfinished(self) -> Sequence[str]:
        with self._called("unfinished"):
            return sorted(self._begun)

    def link(self, key: str, job_id: str) -> None:
        with self._called("link", key):
            self._kept.setdefault(key, job_id)

    def drop(self, key: str) -> None:
        with self._called("drop", key):
            if not any(key in task.data.values() for task in self._runtime.tasks()):
                self._kept.pop(key, None)
                self._begun.pop(key, None)

    # What a test, or the runtime, does to them.

    def holds(self, key: str) -> bool:
        kept = self._kept.get(key)
        return kept is not None and (not isinstance(kept, str) or self._outputs.is_there(kept))

    def content(self, key: str, name: str) -> bytes | None:
        kept = self._kept.get(key)
        if isinstance(kept, str):
            return self._outputs.content(kept, name)
        return kept[name].content if kept and name in kept else None

    def sizes(self) -> tuple[Stored, ...]:
        return tuple(
            Stored(key, 0 if isinstance(kept, str) else sum(len(file.content) for file in kept.values()))
            for key, kept in sorted(self._kept.items())
        )

    def _called(self, method: str, argument: str = "") -> AbstractContextManager[None]:
        return self._runtime.called(f"data.{method}", argument)


class FakeImages:
    """`present` are there; None: all are. `fetchable` as for `FakeRuntime`."""

    def __init__(
        self,
        runtime: Owner,
        present: set[str] | None,
        fetchable: Mapping[str, Iterable[FetchProgress] | RuntimeFault],
    ) -> None:
        self.present = present
        self.layers: dict[str, tuple[str, ...]] = {}
        """What was installed over which image."""
        self.fetchable = dict(fetchable)
        self._runtime = runtime

    def holds(self, image: str) -> bool:
        return self.present is None or image in self.present

    def name_for(self, image: str, launcher: str) -> str:
        return image

    def add_layer(self, image: str, requirements: Sequence[str]) -> Iterator[FetchProgress]:
        yield from self.fetch(image)
        self.layers[image] = tuple(requirements)

    def has(self, image: str) -> bool:
        with self._runtime.called("images.has", image):
            return self.holds(image)

    def identify(self, image: str) -> tuple[str, ...]:
        base, layer = split_layered(image)
        return () if not self.holds(image) else (image, base) if layer else (image,)

    def listed(self) -> Mapping[str, ListedImage]:
        return {image: ListedImage((image,)) for image in self.present or ()}

    def confirm(self, image: str, login: RegistryLogin | None = None) -> None:
        with self._runtime.called("images.confirm", image):
            pass

    def check_login(self, login: RegistryLogin) -> str:
        with self._runtime.called("images.check_login", login.registry):
            return ""

    def fetch(self, image: str, login: RegistryLogin | None = None) -> Iterator[FetchProgress]:
        with self._runtime.called("images.fetch", image):
            outcome = () if self.holds(image) else self.fetchable.get(image)
        if outcome is None:
            raise ImageUnavailable(f"image {image!r} was not found")
        if isinstance(outcome, RuntimeFault):
            raise outcome
        yield from outcome
        self._add(image)

    def save(self, image: str) -> Iterator[bytes]:
        with self._runtime.called("images.save", image):
            if not self.holds(image):
                raise ImageUnavailable(f"image {image!r} is missing")
        yield image.encode()

    def load(self, archive: Iterable[bytes]) -> None:
        image = b"".join(archive).decode()
        with self._runtime.called("images.load", image):
            self._add(image)

    def remove(self, image: str) -> None:
        with self._runtime.called("images.remove", image):
            in_use = {layer_tag(task.image) for task in self._runtime.tasks()}
            if self.present is not None and layer_tag(image) not in in_use:
                self.present -= {each for each in self.present if layer_tag(each) == layer_tag(image)}

    def _add(self, image: str) -> None:
        if self.present is not None:
            self.present.add(image)
