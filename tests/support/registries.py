"""A registry with one small image, which hands it out only when a test lets it."""

from __future__ import annotations

import gzip
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"
_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


class Registry:
    """`with Registry("name:tag", layer) as registry:` gives `registry.image`. Its layer comes once `open` is called."""

    def __init__(self, name: str, layer: bytes) -> None:
        packed = gzip.compress(layer, mtime=0)
        diff = f"sha256:{hashlib.sha256(layer).hexdigest()}"
        config = json.dumps(
            {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [diff]}}
        ).encode()
        repository, _, tag = name.partition(":")
        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": _MANIFEST,
                "config": {"mediaType": _CONFIG, "size": len(config), "digest": _digest(config)},
                "layers": [{"mediaType": _LAYER, "size": len(packed), "digest": _digest(packed)}],
            }
        ).encode()
        self._opened = threading.Event()
        self.asked = threading.Event()
        """Somebody wants the layer."""
        self._layer = f"/v2/{repository}/blobs/{_digest(packed)}"
        files = {
            "/v2/": (b"{}", "application/json"),
            f"/v2/{repository}/manifests/{tag}": (manifest, _MANIFEST),
            f"/v2/{repository}/manifests/{_digest(manifest)}": (manifest, _MANIFEST),
            f"/v2/{repository}/blobs/{_digest(config)}": (config, _CONFIG),
            self._layer: (packed, _LAYER),
        }
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self) -> None:
                self.do_GET()

            def do_GET(self) -> None:
                body, kind = files.get(self.path, (b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}', "application/json"))
                if self.path == registry._layer:
                    registry.asked.set()
                    registry._opened.wait(60)
                self.send_response(200 if self.path in files else 404)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Docker-Content-Digest", _digest(body))
                self.end_headers()
                try:
                    self.wfile.write(body if self.command == "GET" else b"")
                except ConnectionError:
                    pass  # the engine gave up

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.image = f"127.0.0.1:{self._server.server_port}/{name}"

    def open(self) -> None:
        self._opened.set()

    def __enter__(self) -> Registry:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.open()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
