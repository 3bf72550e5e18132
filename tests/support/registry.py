"""A registry of container images that an engine on this machine can pull from: just what a pull asks for. It can hold
layers back until a test lets them go."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"
_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


class Registry:
    """`with Registry() as registry:` then `put` images of `repository`; `pulls` counts the requests for manifests. With
    `held`, layers come once `release` is called; `wanted` is set when somebody asks for one. With `logins`, passwords
    by name, it answers nobody else, and repeats in its refusal what it was sent, as a careless one may."""

    def __init__(
        self, repository: str = "image", *, held: bool = False, logins: Mapping[str, str] | None = None
    ) -> None:
        self.pulls = 0
        self.logins = dict(logins or {})
        self.repository = repository
        self.wanted = threading.Event()
        self._released = threading.Event()
        self._layers: set[str] = set()
        if not held:
            self._released.set()
        self._blobs: dict[str, bytes] = {}
        self._manifests: dict[str, bytes] = {}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                registry._answer(self, body=True)

            def do_HEAD(self) -> None:
                registry._answer(self, body=False)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Registry:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def release(self) -> None:
        self._released.set()

    def image(self, tag: str) -> str:
        return f"{self.address}/{self.repository}:{tag}"

    def put(self, tag: str, layer: bytes, **labels: str) -> str:
        """An image of one layer, a tar archive, under this tag; returns its digest."""
        packed = gzip.compress(layer, mtime=0)
        config = json.dumps(
            {
                "architecture": "amd64", "os": "linux", "config": {"Labels": labels},
                "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
            }
        ).encode()  # fmt: skip
        described = [
            {"mediaType": kind, "size": len(blob), "digest": self._keep(blob)}
            for kind, blob in ((_CONFIG, config), (_LAYER, packed))
        ]
        self._layers.add(described[1]["digest"])
        manifest = json.dumps(
            {"schemaVersion": 2, "mediaType": _MANIFEST, "config": described[0], "layers": described[1:]}
        ).encode()
        digest = _digest(manifest)
        self._manifests[tag] = self._manifests[digest] = manifest
        return digest

    def remove(self, tag: str) -> None:
        """The tag alone."""
        del self._manifests[tag]

    def _keep(self, blob: bytes) -> str:
        digest = _digest(blob)
        self._blobs[digest] = blob
        return digest

    def _knows(self, sent: str) -> bool:
        name, _, password = base64.b64decode(sent.removeprefix("Basic ")).decode().partition(":")
        return self.logins.get(name) == password

    def _answer(self, request: BaseHTTPRequestHandler, *, body: bool) -> None:
        if self.logins and not self._knows(sent := request.headers.get("authorization", "")):
            _refuse(request, sent)
            return
        parts = request.path.strip("/").split("/")
        kind, name = (parts[-2], parts[-1]) if len(parts) > 3 else ("", "")
        found = {"manifests": self._manifests, "blobs": self._blobs}.get(kind, {}).get(name)
        if kind == "manifests":
            self.pulls += 1
        if parts == ["v2"]:
            found = b"{}"
        if name in self._layers:
            self.wanted.set()
            self._released.wait(60)
        content = b"" if found is None else found
        request.send_response(404 if found is None else 200)
        request.send_header("Content-Type", _MANIFEST if kind == "manifests" else "application/octet-stream")
        request.send_header("Content-Length", str(len(content)))
        request.send_header("Docker-Content-Digest", _digest(content))
        request.end_headers()
        try:
            request.wfile.write(content if body else b"")
        except ConnectionError:
            pass  # the engine gave up


def _refuse(request: BaseHTTPRequestHandler, sent: str) -> None:
    plain = base64.b64decode(sent.removeprefix("Basic ")).decode()
    told = {"errors": [{"code": "UNAUTHORIZED", "message": f"unauthorized: got {sent} for {plain}"}]}
    content = json.dumps(told).encode()
    request.send_response(401)
    request.send_header("WWW-Authenticate", 'Basic realm="test"')
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    request.wfile.write(b"" if request.command == "HEAD" else content)


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
