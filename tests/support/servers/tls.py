"""What stands before a service that people open by HTTPS: it ends TLS, and passes bytes on as they are."""

from __future__ import annotations

import socket
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def tls_proxy(folder: Path, target: int) -> Iterator[int]:
    """Its port. The certificate is nobody's: a browser has to be told to take it."""
    key, certificate = folder / "key.pem", folder / "cert.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    named = ["-days", "2", "-subj", "/CN=test", "-keyout", key, "-out", certificate]
    subprocess.run([*made, *named], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with (
                suppress(OSError),
                context.wrap_socket(self.request, server_side=True) as outside,
                socket.create_connection(("127.0.0.1", target)) as inside,
            ):
                back = threading.Thread(target=_copy, args=(inside, outside), daemon=True)
                back.start()
                _copy(outside, inside)
                back.join()

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        yield server.server_address[1]
        server.shutdown()
        serving.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Until one of both has ended; then both have."""
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
