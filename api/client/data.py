"""Resumable pushes of data sets, and downloads."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from schedulearn.api.client.errors import ApiError, ClientError, UnreachableError
from schedulearn.api.client.sync_calls import Calls
from schedulearn.api.client.transport import Json, check, part

if TYPE_CHECKING:
    from schedulearn.api.client.folder import PushProgress

_SMALL = 1 << 20
"""Files up to this size are sent together."""
_BATCH_BYTES, _BATCH_FILES = 16 << 20, 1000
_PIECE = 1 << 18
_AT_ONCE = 4
_ANSWER_S = 300.0
_TRIES = 5  # consecutive tries without a new byte
_REST_S = 0.5  # multiplied by the number of tries


class DataClient(Calls):
    """Part of the client for the content of data sets and models."""

    def push_data(
        self,
        name: str,
        folder: str | os.PathLike[str],
        *,
        on_progress: PushProgress = lambda what, done, total: None,
        on_left_out: Callable[[str], None] = lambda name: None,
    ) -> Json:
        """Make a folder, or one file, the newest version of a data set, and return that version.

        Only files that the service lacks are sent, and an interrupted push continues in the next call. The same content
        makes no new version. `on_left_out` is called for each link that leads outside, and each entry that is not a
        plain file."""
        from schedulearn.api.client.folder import digests_of, list_folder, manifest_json

        limits = self._object("GET", "data-limits")
        found = list_folder(Path(folder), limits["max_bytes"], limits["max_files"])
        for left in found.left_out:
            on_left_out(left)
        digests = digests_of(found, on_progress)
        body = manifest_json(found, digests)
        paths = {digest: found.files[inner] for inner, digest in digests.items()}
        sending = _Sending(found.bytes, on_progress)
        tries, least = 0, None
        while True:
            answer = self._object("POST", f"data/{part(name)}/versions", json=body, timeout=_ANSWER_S, again=True)
            if answer["version"] is not None:
                version: Json = answer["version"]
                return version
            left = sum(each["size"] - each["received"] for each in answer["missing"]) + len(answer["missing"])
            tries, least = (0, left) if least is None or left < least else (tries + 1, least)
            if tries == _TRIES:
                raise UnreachableError(f"{name} was interrupted: run the same command again to resume")
            time.sleep(_REST_S * tries)
            sending.begin(found.bytes - sum(each["size"] - each["received"] for each in answer["missing"]))
            self._send_missing(answer["missing"], paths, sending)

    def get_data(
        self,
        name: str,
        to: str | os.PathLike[str],
        version: int | None = None,
        *,
        on_progress: Callable[[int, int | None], None] = lambda done, total: None,
    ) -> Path:
        """Download a version, by default the newest, into the folder `to`, which must not exist yet."""
        found = self.data_versions(name)
        wanted = [each for each in found if version in (None, each["version"])]
        if not wanted:
            raise ClientError(f"there is no {name}@{version}: the newest version is {found[0]['version']}")
        target = Path(to)
        if target.exists():
            raise ClientError(f"{target} exists already: remove it, or name another target")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            self._receive_data(wanted[0], target, on_progress)
        except OSError as error:
            raise ClientError(f"{target} can't be written: {error.strerror or error}") from error
        return target

    def _receive_data(self, version: Json, target: Path, on_progress: Callable[[int, int | None], None]) -> None:
        import httpx

        from schedulearn.scheduler.runtimes.archives import extract

        unfinished = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
        path = f"/api/v1/data/{part(version['name'])}/{version['version']}/archive"
        done = 0

        def counted(answer: httpx.Response) -> Iterator[bytes]:
            nonlocal done
            for chunk in answer.iter_raw(_PIECE):
                done += len(chunk)
                on_progress(min(done, version["bytes"]), version["bytes"])
                yield chunk

        try:
            with self._http.stream("GET", path, headers={"accept-encoding": "identity"}, timeout=_ANSWER_S) as answer:
                check(answer, self.url)
                extract(counted(answer), unfinished)
            unfinished.chmod(0o755)
            unfinished.rename(target)
        except (httpx.TransportError, tarfile.TarError) as error:
            words = f"{version['reference']} was interrupted ({error}), and nothing was stored: try again"
            raise UnreachableError(words) from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def _send_missing(self, missing: Sequence[Json], paths: dict[str, Path], sending: _Sending) -> None:
        """Send the missing files as far as possible; the next offer tells what is still missing."""
        from concurrent.futures import ThreadPoolExecutor

        small = [each for each in missing if each["size"] <= _SMALL and not each["received"]]
        large = [each for each in missing if each["size"] > _SMALL or each["received"]]
        jobs = [partial(self._send_batch, batch, paths, sending) for batch in _batches(small)]
        jobs += [partial(self._send_large, each, paths[each["sha256"]], sending) for each in large]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for done in [pool.submit(job) for job in jobs]:
                try:
                    done.result()
                except UnreachableError:
                    continue
                except ApiError as error:
                    if error.status not in (409, 502, 503):
                        raise

    def _send_batch(self, batch: Sequence[Json], paths: dict[str, Path], sending: _Sending) -> None:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for each in batch:
                data = _read(paths[each["sha256"]])
                info = tarfile.TarInfo(each["sha256"])
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        headers = {"content-type": "application/x-tar"}
        self._object("POST", "content", content=buffer.getvalue(), headers=headers, timeout=_ANSWER_S)
        sending.sent(sum(each["size"] for each in batch))

    def _send_large(self, each: Json, path: Path, sending: _Sending) -> None:
        query = {"size": each["size"], "offset": each["received"]}
        headers = {"content-type": "application/octet-stream"}
        self._object(
            "PUT",
            f"content/{each['sha256']}",
            params=query,
            content=_pieces(path, each["received"], sending),
            headers=headers,
            timeout=_ANSWER_S,
        )


class _Sending:
    """Count of the bytes sent by several threads."""

    def __init__(self, total: int, on_progress: PushProgress) -> None:
        self._lock = threading.Lock()
        self._total = total
        self._done = 0
        self._on_progress = on_progress

    def begin(self, done: int) -> None:
        self._done = done
        self._on_progress("sending", done, self._total)

    def sent(self, size: int) -> None:
        with self._lock:
            self._done += size
            self._on_progress("sending", min(self._done, self._total), self._total)


def _batches(small: Sequence[Json]) -> list[list[Json]]:
    batches: list[list[Json]] = []
    size = _BATCH_BYTES
    for each in small:
        if size + each["size"] > _BATCH_BYTES or len(batches[-1]) == _BATCH_FILES:
            batches.append([])
            size = 0
        batches[-1].append(each)
        size += each["size"]
    return batches


def _pieces(path: Path, offset: int, sending: _Sending) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(offset)
        while piece := file.read(_PIECE):
            yield piece
            sending.sent(len(piece))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ClientError(f"{path} can't be read: {error.strerror}") from error
