"""Connections to ports of a container: a small program in it passes bytes on. So they need no way to the container but
its engine's, and reach what listens on its loopback address alone, which no other job can."""

from __future__ import annotations

# For any Python 3 that an image has.
_PROGRAM = """
import os, socket, sys, threading
port = int(sys.argv[1])
for address in ("127.0.0.1", "::1"):
    try:
        connection = socket.create_connection((address, port), 10)
        break
    except OSError as error:
        reason = error
else:
    sys.exit("nothing listens on port %d there: %s" % (port, reason))
connection.settimeout(None)
os.write(2, b"connected")

def send():
    try:
        while True:
            data = os.read(0, 65536)
            if not data:
                break
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass

threading.Thread(target=send, daemon=True).start()
try:
    while True:
        data = connection.recv(65536)
        if not data:
            break
        while data:
            data = data[os.write(1, data):]
except OSError:
    pass
os._exit(0)
"""
_SHELL = (
    'for python in python3 python; do if command -v $python >/dev/null 2>&1; then exec $python -c "$1" "$2"; fi; done; '
    "echo there is no Python in this image >&2; exit 127"
)


def relay_to(port: int) -> tuple[str, ...]:
    """The command that connects its input and output to a port. It says `connected` among its errors, or why not."""
    return ("sh", "-c", _SHELL, "sh", _PROGRAM, str(port))
