"""A web application as people run in jobs: a page that talks to it by fetch and by a WebSocket. Standard library only,
as it runs in a job. Its port is its argument; it listens on loopback alone."""

import base64
import hashlib
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PAGE = b"""<!doctype html><title>Notebook</title><p id=fetched></p><p id=heard></p><script>
fetch("/data", {method: "POST", body: "x".repeat(100000)}).then(r => r.text()).then(t => { fetched.textContent = t });
const socket = new WebSocket(location.href.replace("http", "ws") + "socket");
socket.onopen = () => socket.send("hello");
socket.onmessage = ({data}) => { heard.textContent += data + " "; if (data == "hello") socket.send("again") };
</script>"""
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


lock = threading.Lock()
held = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/socket":
            self.talk()
            return
        if self.path == "/login":
            self.reach_out()
            return
        if self.path.startswith("/hold?"):
            self.hold(Path(self.path.partition("?")[2]))
            return
        if self.path == "/stream":
            self.stream()
            return
        self.answer(PAGE if self.path == "/" else repr(dict(self.headers)).encode(), "text/html")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(b"got %d" % len(body), "text/plain")

    def answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def reach_out(self) -> None:
        """Sends the browser on, and tries what would be felt beyond its own origin."""
        self.send_response(302)
        self.send_header("Location", f"http://localhost:{sys.argv[1]}/lab?x=1")
        self.send_header("Set-Cookie", "own=1; Domain=localhost; Path=/")
        self.send_header("Set-Cookie", "schedulearn_port=stolen; Path=/")
        self.send_header("Set-Cookie", "schedulearn_session=stolen; Path=/")
        self.send_header("Clear-Site-Data", '"*"')
        self.send_header("Alt-Svc", 'h2="evil.example:443"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def hold(self, until: Path) -> None:
        """Answers once there is such a file; the log has how many do so at once."""
        global held
        with lock:
            held += 1
            print(f"holds {held}", flush=True)
        while not until.exists():
            time.sleep(0.02)
        with lock:
            held -= 1
        self.answer(b"held", "text/plain")

    def stream(self) -> None:
        """Without an end, until nobody listens."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"data: tick\n\n")
                time.sleep(0.05)
        except OSError:
            print("the listener has gone", flush=True)
        self.close_connection = True

    def talk(self) -> None:
        """Gives back each short text of a WebSocket."""
        key = base64.b64encode(hashlib.sha1((self.headers["Sec-WebSocket-Key"] + GUID).encode()).digest())
        self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n")
        self.wfile.write(b"Sec-WebSocket-Accept: " + key + b"\r\n\r\n")
        while (head := self.rfile.read(2)) and head[0] == 0x81:
            mask = self.rfile.read(4)
            text = bytes(byte ^ mask[i % 4] for i, byte in enumerate(self.rfile.read(head[1] & 127)))
            self.wfile.write(bytes([0x81, len(text)]) + text)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    print("listens", flush=True)
    server.serve_forever()
