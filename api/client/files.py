"""Files of a job as methods: downloads that are complete or absent."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import quote

from schedulearn.api.client.errors import ClientError, UnreachableError
from schedulearn.api.client.sync_calls import Calls
from schedulearn.api.client.transport import check, part, without_empty

if TYPE_CHECKING:
    import httpx

Progress = Callable[[int, int | None], None]
"""Called with the number of bytes received, and the total (None: unknown)."""

_TRIES = 4  # consecutive tries without a new byte
_REST_S = 0.5  # multiplied by the number of tries
_READ_S = 120.0  # maximum silence: an engine may need long to find the beginning of a part


class FilesClient(Calls):
    """Part of the client for the files of jobs. A path begins with `outputs` or `checkpoints`."""

    def download(
        self,
        job_id: str,
        path: str,
        to: str | os.PathLike[str] = ".",
        *,
        host: str | None = None,
        on_progress: Progress = lambda done, total: None,
        on_left_out: Callable[[str], None] = lambda name: None,
    ) -> Path:
        """Download a file or a folder of a job, and return its local path.

        It is stored in the folder `to`, or under that name. That name never holds an incomplete file or folder. An
        interrupted download of a file continues by itself, or in the next call. An existing file is replaced; for an
        existing folder, ClientError is raised. `on_left_out` is called with the name of each link that leads out of a
        folder.
        """
        path = path.strip("/")
        if not path:
            raise ClientError("name a file or a folder, e.g. outputs/model.pt")
        query = {"path": path, "limit": 0, **without_empty(host=host)}
        listed = self._object("GET", f"jobs/{part(job_id)}/files", params=query)
        itself = [item for item in listed["items"] if item["path"] == path]
        target = _target(path, os.fspath(to))
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if itself:
                self._download_file(job_id, path, target, host or itself[0]["host"], on_progress)
            else:
                hosts = [host] if host else listed["hosts"]
                if listed["away"]:
                    away = ", ".join(listed["away"])
                    raise ClientError(f"files of {path} may be on {away}, which does not answer: name another `host`")
                self._download_folder(job_id, path, target, hosts, on_progress, on_left_out)
        except OSError as error:
            raise ClientError(f"{target} can't be written: {error.strerror or error}") from error
        return target

    def _download_file(self, job_id: str, path: str, target: Path, host: str, on_progress: Progress) -> None:
        import httpx

        unfinished: Path | None = None
        tries = 0
        while True:
            before = _size(unfinished)
            try:
                received = self._receive(job_id, path, target, host, on_progress)
                if unfinished is not None and unfinished != received:
                    unfinished.unlink(missing_ok=True)
                return
            except (httpx.TransportError, _Cut) as error:
                where = error.where if isinstance(error, _Cut) else unfinished
                tries = 0 if where == unfinished and _size(where) > before else tries + 1
                if where != unfinished and unfinished is not None:
                    unfinished.unlink(missing_ok=True)  # it belongs to an earlier version of the file
                unfinished = where
                if tries == _TRIES:
                    words = f"{path} was cut after {_size(unfinished):,} bytes ({error})"
                    raise UnreachableError(f"{words}: run the same command again to resume") from error
            time.sleep(_REST_S * tries)

    def _receive(self, job_id: str, path: str, target: Path, host: str, on_progress: Progress) -> Path:
        """Receive what one connection gives, and return the name that the file had until it was complete.

        Raises _Cut if the connection ends too early."""
        import httpx

        with self._opened(job_id, path, host) as answer:
            etag, size = answer.headers["etag"], int(answer.headers["content-length"])
            name = hashlib.sha256(f"{self.url}\n{job_id}\n{path}\n{host}\n{etag}".encode()).hexdigest()[:12]
            unfinished = target.with_name(f".{target.name}.{name}.part")
            with _alone(unfinished) as file:
                done = file.seek(0, os.SEEK_END)
                try:
                    if not done:
                        self._write(answer, file, 0, size, on_progress)
                    elif done < size:
                        answer.close()
                        headers = {"range": f"bytes={done}-", "if-range": etag}
                        with self._opened(job_id, path, host, headers) as rest:
                            if rest.status_code != 206:
                                raise _Cut("it changed during the download", unfinished)
                            self._write(rest, file, done, size, on_progress)
                except httpx.TransportError as error:
                    raise _Cut(str(error) or type(error).__name__, unfinished) from error
                if file.tell() != size:
                    raise _Cut("the connection ended", unfinished)
                file.flush()
                os.fsync(file.fileno())
                unfinished.replace(target)
                return unfinished

    @staticmethod
    def _write(answer: httpx.Response, file: BinaryIO, done: int, size: int, on_progress: Progress) -> None:
        for chunk in answer.iter_raw(1 << 18):
            file.write(chunk)
            done += len(chunk)
            on_progress(done, size)

    def _download_folder(
        self,
        job_id: str,
        path: str,
        target: Path,
        hosts: list[str],
        on_progress: Progress,
        on_left_out: Callable[[str], None],
    ) -> None:
        import httpx

        from schedulearn.scheduler.runtimes.archives import extract

        if target.exists():
            raise ClientError(f"{target} exists already: remove it, or name another target")
        unfinished = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
        done = 0
        try:
            for host in reversed(hosts):  # files of the first host win
                with self._opened(job_id, path, host) as answer:

                    def counted(answer: httpx.Response = answer) -> Iterator[bytes]:
                        nonlocal done
                        for chunk in answer.iter_raw(1 << 18):
                            done += len(chunk)
                            on_progress(done, None)
                            yield chunk

                    for name in extract(counted(), unfinished):
                        on_left_out(name)
            unfinished.chmod(0o777 & ~_umask())
            unfinished.rename(target)
        except (httpx.TransportError, tarfile.TarError) as error:
            raise UnreachableError(f"{path} was interrupted ({error}), and nothing was stored: try again") from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    @contextmanager
    def _opened(
        self, job_id: str, path: str, host: str, headers: dict[str, str] | None = None
    ) -> Iterator[httpx.Response]:
        import httpx

        where = f"/api/v1/jobs/{part(job_id)}/files/{quote(path, safe='/')}"
        asked = {"accept-encoding": "identity", **(headers or {})}
        limits = httpx.Timeout(10.0, read=_READ_S)
        with self._http.stream("GET", where, params={"host": host}, headers=asked, timeout=limits) as answer:
            check(answer, self.url)
            yield answer


class _Cut(Exception):
    """A file that did not come whole. Its received part is at `where`."""

    def __init__(self, why: str, where: Path) -> None:
        super().__init__(why)
        self.where = where


def _target(path: str, to: str) -> Path:
    """Return the path of the download.

    It is inside `to` if that is a folder or ends with "/", else it is `to` itself."""
    name = path.rpartition("/")[2]
    return Path(to, name) if os.path.isdir(to) or to.endswith("/") else Path(to)


@contextmanager
def _alone(path: Path) -> Iterator[BinaryIO]:
    """Open a file to continue it. Raises ClientError while another process writes it."""
    with path.open("ab") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:
            pass  # not Unix
        except OSError as error:
            raise ClientError(f"another process downloads the same file: {path} is its unfinished part") from error
        yield file


def _size(path: Path | None) -> int:
    try:
        return path.stat().st_size if path is not None else 0
    except OSError:
        return 0


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
