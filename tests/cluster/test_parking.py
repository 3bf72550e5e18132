"""Hosts are parked and woken as the policy wishes, by a hook that is a real command."""

import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from builders import host, job, snapshot
from clusters import FakeCluster, spec, wait_for
from fakes.runtime import FakeRuntime

from schedulearn.scheduler.core.host_scaling import HostLoad, Step, steps
from schedulearn.scheduler.hosts.parking import HostParking
from schedulearn.scheduler.policies.registry import make_policy
from schedulearn.scheduler.settings import ClusterSettings


def on(id: str, **fields: Any) -> HostLoad:
    return HostLoad(id, on=True, **fields)


def off(id: str, parking: str = "parked", **fields: Any) -> HostLoad:
    return HostLoad(id, on=False, parking=parking, **fields)


@pytest.mark.parametrize(
    ("hosts", "desired", "expected"),
    [
        ([on("a"), on("b"), on("c")], 3, []),
        ([on("a"), on("b", held=2), on("c", held=1)], 2, [("a", "close")]),
        ([on("a"), on("b"), on("c")], 1, [("c", "close"), ("b", "close")]),
        ([on("a", bound=True), on("b", bound=True)], 1, []),
        ([on("a"), on("b")], 0, [("b", "close")]),
        ([on("a"), off("b", "emptying")], 1, [("b", "park")]),
        ([on("a"), off("b", "emptying", held=1)], 1, []),
        ([on("a"), off("b"), off("c", "emptying", held=1)], 2, [("c", "reopen")]),
        ([on("a"), off("b"), off("c")], 2, [("b", "wake")]),
        ([on("a"), off("b"), off("c", "emptying")], None, [("c", "reopen"), ("b", "wake")]),
        ([HostLoad("a", on=False), on("b"), on("c")], 2, []),
        ([off("a")], 0, [("a", "wake")]),
    ],
)
def test_steps(hosts: list[HostLoad], desired: int | None, expected: list[tuple[str, Step]]) -> None:
    assert steps(hosts, desired) == expected


def hook(directory: Path) -> tuple[str, Path]:
    """A command that writes down how it was called, and fails while there is a file `broken`."""
    script, calls = directory / "hook.sh", directory / "calls"
    script.write_text(f'echo "$@" >> {calls}; if [ -e {directory}/broken ]; then echo no power >&2; exit 3; fi')
    return f"sh {script}", calls


@dataclass
class Decision:
    desired_hosts: int
    parks_idle_only: bool = False


def parking(c: FakeCluster, command: str, decision: Decision) -> HostParking:
    return HostParking(c.cluster.db, command, decision, lambda: set(c.cluster.agents), c.cluster.loop.wake, settle_s=0)


def state(c: FakeCluster, host_id: str) -> tuple[str, str]:
    with c.cluster.db.read() as db:
        from schedulearn.scheduler.store import hosts

        row = hosts.get_host(db, host_id)
        return row.state, row.parking


def test_a_host_is_emptied_parked_and_woken(tmp_path: Path) -> None:
    command, calls = hook(tmp_path)
    others = {name: FakeRuntime(name) for name in ("h1", "h2")}
    with FakeCluster(tmp_path, gpus=0, others=others) as c:
        c.add("h1", "h2")
        [first, second] = c.submit(*[spec(f"j{i}", gpus=4, elastic=True, min_gpus=4) for i in range(2)])
        for each in (first, second):
            c.wait(each, "running")
        decision = Decision(1)
        p = parking(c, command, decision)
        p.turn()
        [gone] = [h for h in others if state(c, h) == ("cordoned", "emptying")]
        assert not calls.exists(), "not before it is empty"
        wait_for(lambda: c.poke() and not others[gone].tasks(), what="its elastic job to leave")
        p.turn()
        assert calls.read_text() == f"park {gone} tcp://{gone}.lab:2375\n"
        assert state(c, gone) == ("cordoned", "parked")
        assert sorted(c.state(j) for j in (first, second)) == ["queued", "running"]
        p.turn()
        assert len(calls.read_text().splitlines()) == 1, "once is enough"

        decision.desired_hosts = 2
        p.turn()
        assert calls.read_text().splitlines()[1:] == [f"wake {gone} tcp://{gone}.lab:2375"]
        assert state(c, gone) == ("active", "")
        for each in (first, second):
            c.wait(each, "running")


def test_a_rigid_job_keeps_its_host_on(tmp_path: Path) -> None:
    command, calls = hook(tmp_path)
    with FakeCluster(tmp_path, gpus=0, others={"h1": FakeRuntime("h1"), "h2": FakeRuntime("h2")}) as c:
        c.add("h1", "h2")
        for each in c.submit(spec(gpus=4), spec(gpus=4)):
            c.wait(each, "running")
        parking(c, command, Decision(1)).turn()
        assert {state(c, h) for h in ("h1", "h2")} == {("active", "")}
        assert not calls.exists()


def test_a_hook_that_fails_is_told_and_tried_again_later(tmp_path: Path) -> None:
    command, calls = hook(tmp_path)
    (tmp_path / "broken").touch()
    with FakeCluster(tmp_path, gpus=0, others={"h1": FakeRuntime("h1"), "h2": FakeRuntime("h2")}) as c:
        c.add("h1", "h2")
        now = [1000.0]
        p = HostParking(
            c.cluster.db, command, Decision(1), lambda: set(c.cluster.agents), c.cluster.loop.wake,
            settle_s=0, clock=lambda: now[0],
        )  # fmt: skip
        for _ in range(3):
            p.turn()
        assert len(calls.read_text().splitlines()) == 1
        assert state(c, "h2") == ("cordoned", "emptying"), "closed, and not taken for off"
        with c.cluster.db.read() as db:
            from schedulearn.scheduler.store import repository

            [event] = [e for e in repository.list_events(db) if e.kind == "host.hook_failed"]
        assert "failed to park h2: exit code 3: no power" in event.message
        (tmp_path / "broken").unlink()
        now[0] += 61
        p.turn()
        assert state(c, "h2") == ("cordoned", "parked")


def test_the_hook_may_be_a_url(tmp_path: Path) -> None:
    got: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with FakeCluster(tmp_path, gpus=0, others={"h1": FakeRuntime("h1"), "h2": FakeRuntime("h2")}) as c:
            c.add("h1", "h2")
            p = parking(c, f"http://127.0.0.1:{server.server_port}/power", Decision(1))
            p.turn()
            p.turn()
            assert got == [{"action": "park", "host": "h2", "address": "tcp://h2.lab:2375"}]
            assert state(c, "h2") == ("cordoned", "parked")
    finally:
        server.shutdown()
        server.server_close()


def test_an_operators_word_ends_the_parking(tmp_path: Path) -> None:
    command, _ = hook(tmp_path)
    with FakeCluster(tmp_path, gpus=0, others={"h1": FakeRuntime("h1"), "h2": FakeRuntime("h2")}) as c:
        c.add("h1", "h2")
        p = parking(c, command, Decision(1))
        p.turn()
        c.cluster.fleet.set_state("h2", "cordoned")
        p.turn()
        p.turn()
        assert state(c, "h2") == ("cordoned", ""), "closed by a person: it stays on"


def test_a_service_under_fifo_parks_its_idle_host_and_wakes_it_for_a_job_that_waits(tmp_path: Path) -> None:
    """The loop's own wish, without a hook: hosts are only marked."""
    others = {"h1": FakeRuntime("h1"), "h2": FakeRuntime("h2")}
    chosen = ClusterSettings(scale_window=0, mark_parked=True)
    with FakeCluster(tmp_path, gpus=0, others=others, settings=chosen) as c:
        c.cluster.service.set_policy("fifo")
        c.add("h1", "h2")
        [first] = c.submit(spec("a", gpus=4))
        c.wait(first, "running")
        p = c.cluster.parking
        assert p is not None
        wait_for(lambda: c.poke() and c.cluster.loop.desired_hosts == 1, what="the idle host to be too many")
        idle = next(h for h in others if not others[h].tasks())
        wait_for(lambda: p.turn() or state(c, idle) == ("cordoned", "parked"), what="the idle host to be parked")
        [second] = c.submit(spec("b", gpus=4))
        wait_for(lambda: c.poke() and c.cluster.loop.desired_hosts == 2, what="a host to be wanted for it")
        wait_for(lambda: p.turn() or state(c, idle) == ("active", ""), what="the host to be woken")
        c.wait(second, "running")


@pytest.mark.parametrize("metric", ["default", "speed", "cost"])
def test_jobs_that_wait_have_parked_hosts_woken(metric: str) -> None:
    parked = host("h1", 0, open=False, parked_gpus=4)
    policy = make_policy("goodput", metric)
    full = [job("a", gpus=4, allocation={"h0": 4}), job("b", gpus=4)]
    assert policy.allocate(snapshot(full, [host("h0"), parked])).desired_hosts == 2
    larger = [job("a", gpus=8)]
    assert policy.allocate(snapshot(larger, [host("h0"), parked])).desired_hosts == 2
    too_large = [job("a", gpus=9)]
    assert policy.allocate(snapshot(too_large, [host("h0"), parked])).desired_hosts == 1
    assert policy.allocate(snapshot([], [host("h0"), parked])).desired_hosts == 1
