"""Manifest of a version of a data set.

It lists the files by the digests of their content, so that equal content has the same digest.
"""

from __future__ import annotations

import builtins
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from schedulearn.scheduler.code.archive import DIGEST, Entry, Kind, check_entries
from schedulearn.scheduler.errors import InvalidError

BLOB = r"[0-9a-f]{64}"
MAX_BYTES = 200 << 30
"""Default maximum size of one version; operators can change it."""
MAX_FILES = 200_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_REFERENCE = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,99})(?:@([1-9][0-9]{0,8}))?")


@dataclass(frozen=True)
class ManifestEntry:
    """One file, folder or symbolic link. `blob` is the SHA-256 of a file's content, as hexadecimal digits."""

    path: str
    kind: Kind
    size: int = 0
    executable: bool = False
    target: str = ""
    blob: str = ""


@dataclass(frozen=True)
class Blob:
    name: str
    size: int


@dataclass(frozen=True)
class Manifest:
    """List of items, checked and sorted by path. Create it with `manifest_of` or `read_manifest`."""

    items: Sequence[ManifestEntry]

    @property
    def bytes(self) -> int:
        return sum(item.size for item in self.items)

    @property
    def files(self) -> int:
        return sum(item.kind is Kind.FILE for item in self.items)

    @property
    def blobs(self) -> Iterator[Blob]:
        """Distinct contents."""
        seen = set()
        for item in self.items:
            if item.kind is Kind.FILE and item.blob not in seen:
                seen.add(item.blob)
                yield Blob(item.blob, item.size)

    def parts(self, size: int, files: int) -> Iterator[Manifest]:
        """Split the manifest into parts of at most `size` bytes and `files` items.

        A larger item is a part by itself. The order is that of the items, and the parts are the same in every call."""
        part: list[ManifestEntry] = []
        room = size
        for item in self.items:
            if part and (item.size > room or len(part) == files):
                yield Manifest(tuple(part))
                part, room = [], size
            part.append(item)
            room -= item.size
        if part:
            yield Manifest(tuple(part))

    def text(self) -> builtins.bytes:
        """Return the canonical form, whose digest is the manifest's digest."""
        rows = [[i.path, i.kind.value, i.size, i.executable, i.target, i.blob] for i in self.items]
        return json.dumps(rows, separators=(",", ":")).encode()

    @property
    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self.text()).hexdigest()}"


def manifest_of(items: Iterable[ManifestEntry], max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES) -> Manifest:
    """Create a manifest. Raises InvalidError, which names the item, for an invalid item."""
    found = {item.path: item for item in items}
    sizes: dict[str, int] = {}
    for item in found.values():
        if item.kind is not Kind.FILE:
            continue
        if not re.fullmatch(BLOB, item.blob):
            raise InvalidError(f"{item.path!a} needs a SHA-256 of 64 hexadecimal digits", field="files")
        if item.size < 0 or sizes.setdefault(item.blob, item.size) != item.size:
            raise InvalidError(f"{item.path!a} has the digest of another file, but a different size", field="files")
    entries = [Entry(i.path, i.kind, i.size, i.executable, i.target) for i in found.values()]
    return Manifest(tuple(found[entry.path] for entry in check_entries(entries, max_bytes, max_files)))


def read_manifest(text: bytes) -> Manifest:
    """Parse the result of `Manifest.text`."""
    rows = json.loads(text)
    return Manifest(tuple(ManifestEntry(path, Kind(kind), *rest) for path, kind, *rest in rows))


def check_name(name: str) -> str:
    """Raise InvalidError for an invalid name of a data set; otherwise return the name."""
    if not _NAME.fullmatch(name):
        raise InvalidError(
            f"invalid name {name[:120]!r} of a data set: use at most 100 letters, digits, '_', '.' and '-', beginning "
            "with a letter or digit",
            field="name",
        )
    return name


def split_reference(reference: str) -> tuple[str, int | None]:
    """Split `NAME` or `NAME@3` into (name, version); None means the newest version. Raises InvalidError."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise InvalidError(
            f"invalid reference {reference[:120]!r}: must be NAME, or NAME@3 with a version", field="data"
        )
    return match[1], int(match[2]) if match[2] else None


def kept_path(path: str) -> str:
    """Return a path to publish, relative to a job's outputs.

    Empty for all of them. `path` may start with `/outputs`. Raises InvalidError for other paths."""
    inner = path.strip("/")
    if path.startswith("/"):
        if inner != "outputs" and not inner.startswith("outputs/"):
            raise InvalidError(
                f"{path[:200]!r} is not below /outputs: a job must write its results there", field="keep"
            )
        inner = inner.removeprefix("outputs").lstrip("/")
    parts = inner.split("/") if inner else []
    if any(part in ("", ".", "..") for part in parts) or "\0" in inner or len(inner) > 1024:
        raise InvalidError(f"{path[:200]!r} is not a valid path below /outputs", field="keep")
    return inner


def check_digest(digest: str) -> str:
    if not re.fullmatch(DIGEST, digest):
        raise InvalidError("a digest must be sha256: and 64 hexadecimal digits", field="digest")
    return digest
