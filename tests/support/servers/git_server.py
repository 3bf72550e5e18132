"""A git server on this machine: git's own, behind Python's HTTP server."""

from __future__ import annotations

import os
import subprocess
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class GitServer:
    origin: str
    folder: Path

    def commit(self, files: Mapping[str, bytes | str], name: str = "nets") -> str:
        """Commits these files to the branch `main` of a repository, and returns the commit."""
        work = self.folder / f"{name}.work"
        if not work.exists():
            self.git("init", "--quiet", "--bare", "--initial-branch=main", str(self.folder / f"{name}.git"))
            self.git("init", "--quiet", "--initial-branch=main", str(work))
        for path, content in files.items():
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).write_bytes(content if isinstance(content, bytes) else content.encode())
        self.git("add", "--all", at=work)
        self.git("commit", "--quiet", "--message", "more", at=work)
        self.git("push", "--quiet", str(self.folder / f"{name}.git"), "main", at=work)
        return self.git("rev-parse", "HEAD", at=work)

    def url(self, name: str = "nets") -> str:
        return f"{self.origin}/{name}.git"

    def git(self, *words: str, at: Path | None = None) -> str:
        options = ("-c", "user.name=ada", "-c", "user.email=ada@example.org")
        done = subprocess.run(["git", *options, *words], cwd=at, capture_output=True, text=True, check=True)
        return done.stdout.strip()


@contextmanager
def git_server(folder: Path) -> Iterator[GitServer]:
    folder.mkdir()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            path, _, query = self.path.partition("?")
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if self.headers.get("content-encoding") == "gzip":
                body = zlib.decompress(body, wbits=31)
            env = {
                **os.environ, "GIT_PROJECT_ROOT": str(folder), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
                "QUERY_STRING": query, "REQUEST_METHOD": self.command, "CONTENT_LENGTH": str(len(body)),
                "CONTENT_TYPE": self.headers.get("content-type") or "",
                "GIT_PROTOCOL": self.headers.get("git-protocol") or "", "REMOTE_ADDR": "127.0.0.1",
                "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
            }  # fmt: skip
            done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=True)
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().splitlines())
            self.send_response(int(headers.pop("Status", "200").split()[0]))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _answer

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield GitServer(f"http://127.0.0.1:{server.server_port}", folder)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
