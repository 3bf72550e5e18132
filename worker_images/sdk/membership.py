"""Membership of a job whose workers may come and go.

They may do so while the job trains. Each worker is a container of its own. The service decides which workers belong to
the job, and tells those that ask. The first worker, the leader, asks all the time; new workers ask until they have
joined. The leader opens a rendezvous, and tells the service its address. It is Horovod's, at a port that is free where
the leader runs. New workers go there when they are ready to train. The other workers leave their step loop for it only
when all new ones have arrived. See docs/adr/0013.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any, Callable
from urllib.parse import urlsplit

from schedulearn.worker.environment import Environment
from schedulearn.worker.reporter import opener_for

HOLD_S = 10.0  # maximum seconds that the service waits for news before it answers
RETRY_S = 1.0
LOOK_S = 0.02  # seconds between checks of the rendezvous
UNREACHABLE = 69
"""Exit code of a worker that lost the others, or its place among them (EX_UNAVAILABLE).

A new attempt may fix it."""


@dataclass(frozen=True)
class Roster:
    """Membership of one generation: members in the order of their ranks.

    `meeting`: address:port of their rendezvous, empty for a single worker."""

    generation: int
    members: tuple[int, ...]
    meeting: str = ""


class Membership:
    """Membership of this worker.

    The main thread calls all public methods; a thread of the leader listens to the service."""

    def __init__(self, env: Environment) -> None:
        assert env.member is not None
        self._env = env
        self.member = env.member
        self.first_rank, self.first_size = env.rank, env.workers
        """Rank and number of workers when this worker joins, unless others come or go meanwhile."""
        self.current = Roster(0, ())
        """Workers that train together now."""
        self._heard = Roster(0, ())
        self._meeting: Meeting | None = None
        self._last_meeting: Meeting | None = None
        self._trained = 0
        self._forming = False
        self._closing = False
        self._lock = threading.Lock()
        self._opener = opener_for(env)

    @property
    def leads(self) -> bool:
        return self.first_rank == 0

    def first(self, give_up: Callable[[], bool]) -> Roster:
        """Block until this worker can join: all others that are to start with it are there.

        Raises SystemExit if `give_up()` is true, or if the service has no place for this worker any more."""
        if not self.leads:
            return self._wait_for_leader(give_up)
        if self.first_size == 1:  # nobody to wait for, not even the service
            self._heard = Roster(self._env.generation, (self.member,))
        else:
            _import_horovod_runner()
        threading.Thread(target=self._listen, name="schedulearn-members", daemon=True).start()
        while True:
            if (roster := self.offer()) is not None:
                return roster
            if give_up():
                raise SystemExit(UNREACHABLE)
            time.sleep(LOOK_S)

    def due(self) -> bool:
        """Return whether the leader can change the membership now: all new workers have arrived."""
        return self._next() is not None

    def offer(self) -> Roster | None:
        """Call the workers to the next membership, as the leader.

        New workers go to the rendezvous at once; the others hear of it from the leader. Returns None if there is
        nothing to offer any more, say because a worker was given up at the last moment."""
        found = self._next()
        if found is None:
            return None
        roster, meeting = found
        if meeting is not None:
            meeting.go()
        self._forming = bool(self.current.members)  # at the start no training stands still for it
        self._tell()
        return roster

    def _next(self) -> tuple[Roster, Meeting | None] | None:
        with self._lock:
            heard, meeting, now = self._heard, self._meeting, self.current
        if heard.generation <= now.generation or heard.members == now.members:
            return None
        if len(heard.members) == 1:
            return heard, None
        new = set(heard.members) - set(now.members) - {self.member}
        if meeting is None or meeting.generation != heard.generation or not new <= meeting.arrived():
            return None
        return Roster(heard.generation, heard.members, meeting.address), meeting

    def enter(self, roster: Roster) -> None:
        """Set the environment so that `hvd.init()` joins the others."""
        self.current = roster
        for name in _variables("", "", 0, 0):
            os.environ.pop(name, None)
        if len(roster.members) > 1:
            rank, size = roster.members.index(self.member), len(roster.members)
            os.environ.update(_variables(f"worker{self.member}", roster.meeting, rank, size))

    def trains(self) -> None:
        """Report once, as the leader, that the new membership works. Called after each step."""
        if self.leads and self._trained != self.current.generation:
            with self._lock:
                self._trained, self._forming = self.current.generation, False
            self._tell()

    def close(self) -> None:
        self._closing = True

    # --- new workers ---

    def _wait_for_leader(self, give_up: Callable[[], bool]) -> Roster:
        while True:
            if give_up():
                raise SystemExit(UNREACHABLE)
            heard = self._ask(HOLD_S / 5)
            if heard is None:
                time.sleep(RETRY_S)
            elif self.member in heard.members and heard.meeting:
                if self._visit(heard.meeting, give_up):
                    return heard
                time.sleep(RETRY_S)

    def _visit(self, address: str, give_up: Callable[[], bool]) -> bool:
        """Report this worker's arrival at the rendezvous, and wait for the leader's call.

        Returns False if the rendezvous is over."""
        url = f"http://{address}/"
        try:
            self._open(urllib.request.Request(f"{url}arrived/{self.member}", data=b"here", method="PUT"), 5)  # noqa: S310
            while not give_up():
                try:
                    self._open(urllib.request.Request(f"{url}go/now"), 5)  # noqa: S310
                    return True
                except urllib.error.HTTPError as error:
                    if error.code != 404:
                        return False
                time.sleep(LOOK_S)
        except OSError:
            pass
        return False

    # --- the leader's thread ---

    def _listen(self) -> None:
        retry = RETRY_S
        while not self._closing:
            heard = self._ask(HOLD_S)
            if heard is None:
                time.sleep(retry)
                retry = min(2 * retry, 5.0)
                continue
            retry = RETRY_S
            new = heard.generation > max(self.current.generation, self._heard.generation)
            if new and len(heard.members) > 1 and heard.members != self.current.members:
                try:
                    self._open_meeting(heard)
                except OSError as error:
                    print(f"schedulearn: other workers can't connect to this one: {error}", file=sys.stderr)  # noqa: T201
                    time.sleep(RETRY_S)
                    continue
            with self._lock:
                self._heard = heard
                if heard.generation > self.current.generation and heard.members == self.current.members:
                    # The expected workers won't come.
                    self.current = Roster(heard.generation, heard.members, self.current.meeting)
                    self._trained = heard.generation

    def _open_meeting(self, roster: Roster) -> None:
        if self._last_meeting is not None:
            self._last_meeting.close()
        meeting = Meeting(roster, own_address(self._env.report_url or ""))
        with self._lock:
            self._last_meeting, self._meeting = self._meeting, meeting

    def _tell(self) -> None:
        """Report to the service without making training wait.

        The next request repeats what can't be reported now."""
        threading.Thread(target=self._ask, args=(0.0,), name="schedulearn-tells", daemon=True).start()

    # --- to the service ---

    def _ask(self, hold: float) -> Roster | None:
        """Ask which workers belong to the job; None if the service does not answer.

        Raises SystemExit in workers other than the leader if they don't belong to the job any more."""
        with self._lock:
            meeting = self._meeting
            body = {
                "attempt": self._env.attempt,
                "member": self.member,
                "leads": self.leads,
                "trained": self._trained,
                "forming": self._forming,
                "meeting": {"generation": meeting.generation, "address": meeting.address} if meeting else None,
                "known": self._heard.generation,
                "hold": hold,
            }
        headers = {"Authorization": "Bearer " + self._env.token, "Content-Type": "application/json"}
        url = f"{self._env.report_url}/membership"
        try:
            answer = json.loads(
                self._open(urllib.request.Request(url, data=json.dumps(body).encode(), headers=headers), hold + 5)  # noqa: S310
            )
            return Roster(answer["generation"], tuple(answer["members"]), answer["meeting"])
        except urllib.error.HTTPError as error:
            if error.code in (401, 404, 409) and not self.leads:
                print("schedulearn: this worker no longer belongs to the job", file=sys.stderr)  # noqa: T201
                raise SystemExit(UNREACHABLE) from error
        except (OSError, ValueError, KeyError):
            pass
        return None

    def _open(self, request: urllib.request.Request, timeout: float) -> bytes:
        with self._opener.open(request, timeout=timeout) as answer:
            return bytes(answer.read())


class Meeting:
    """Horovod's rendezvous for one membership, and the list of workers that have arrived.

    The leader serves it."""

    def __init__(self, roster: Roster, host: str) -> None:
        from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
        from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

        self.generation = roster.generation
        names = ",".join(f"worker{member}:1" for member in roster.members)
        self._server: Any = RendezvousHTTPServer((host, 0), RendezvousHandler, 0)
        self._server.daemon_threads = True
        self._server.init(get_host_assignments(parse_hosts(names), len(roster.members)))
        self.address = f"{host}:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, name="schedulearn-meeting", daemon=True).start()

    def arrived(self) -> set[int]:
        with self._server.cache_lock:
            return {int(member) for member in self._server.cache.get("arrived", {})}

    def go(self) -> None:
        with self._server.cache_lock:
            self._server.cache.setdefault("go", {})["now"] = b"now"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


_NCCL_IS_CHOSEN = "NCCL_SOCKET_IFNAME" in os.environ
"""Whether the user chose the interface, before this module sets it."""


def _variables(name: str, meeting: str, rank: int, size: int) -> dict[str, str]:
    """Return the variables by which Horovod finds the other workers.

    To Horovod each worker is a host of its own. Local ranks are the numbers of the GPUs that it sees, and no other
    worker sees these."""
    host, _, port = meeting.rpartition(":")
    return {
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": host,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": port,
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_IFACE": interface_of(host) if host else "",
        **({} if _NCCL_IS_CHOSEN else {"NCCL_SOCKET_IFNAME": f"={interface_of(host)}" if host else ""}),
        "HOROVOD_HOSTNAME": name,
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(size),
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_LOCAL_SIZE": "1",
        "HOROVOD_CROSS_RANK": str(rank),
        "HOROVOD_CROSS_SIZE": str(size),
    }


def own_address(service_url: str) -> str:
    """Return the address of this worker on the network to the service, which all workers share."""
    parts = urlsplit(service_url)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((parts.hostname or "127.0.0.1", parts.port or 80))  # sends nothing
        return str(probe.getsockname()[0])


def interface_of(peer: str) -> str:
    """The network interface by which an address is reached."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((peer, 1))
        own = probe.getsockname()[0]
        for _, name in socket.if_nameindex():
            try:
                found = fcntl.ioctl(probe, 0x8915, struct.pack("256s", name.encode()[:15]))  # SIOCGIFADDR
            except OSError:
                continue  # without an address
            if socket.inet_ntoa(found[20:24]) == own:
                return name
    return "lo"


def _import_horovod_runner() -> None:
    """Import it before it is needed in the middle of training."""
    from horovod.runner.http import http_server  # noqa: F401
