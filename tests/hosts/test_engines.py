"""Real Docker Engines over ssh, TLS and a socket: hosts are added, lost, returned, restarted and drained under load."""

from __future__ import annotations

import signal
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from benches import IMAGE
from clusters import wait_for
from engines import Lab, LabHost
from lease_checks import check_leases
from services import Service, run

pytestmark = [pytest.mark.long, pytest.mark.docker]

SLOW = 120.0  # for what waits for time limits of connections


def submit(served: Service, command: str = "sleep 600", gpus: int = 1, **fields: Any) -> str:
    return served.submit(command, gpus, container_image=IMAGE, **fields)


def home(served: Service, hosts: Lab, job: str) -> LabHost:
    [task] = [task for task in served.job(job)["tasks"] if task["state"] != "ended"]
    return hosts.hosts[task["host"]]


def host(served: Service, name: str) -> dict[str, Any]:
    found: dict[str, Any] = served.http.get(f"/api/v1/hosts/{name}").json()
    return found


def test_jobs_run_on_hosts_reached_by_ssh_tls_and_socket(served: Service, hosts: Lab) -> None:
    for found in (host(served, name) for name in hosts.hosts):
        assert found["version"]
        assert found["cpus"]
        assert len(found["gpus"]) == 4
    jobs = [submit(served, "sh -c 'echo hello from $SCHEDULEARN_JOB_ID'", 4) for _ in range(6)]
    places = set()
    for job in jobs:
        ended = served.wait(job, "succeeded", "failed")
        assert ended["state"] == "succeeded", ended
        assert served.logs(job) == f"hello from {job}\n"
        places.add(ended["tasks"][0]["host"])
    assert places == set(hosts.hosts)
    wait_for(lambda: not any(h.containers() for h in hosts.hosts.values()), seconds=20, what="containers to be removed")


def test_what_is_wrong_with_a_host_is_said_where_it_is_added(served: Service, hosts: Lab) -> None:
    url = str(served.http.base_url)
    tls = hosts.hosts["h2"]
    out = run("hosts", "add", f"tcp://{tls.ip}:2375", "--name", "nobody", url=url).out
    assert "does not answer yet" in out
    assert "refused" in out
    out = run("hosts", "add", "ssh://root@10.213.7.77", url=url).out
    assert "does not answer yet" in out
    out = run("hosts", "add", f"tcp://{tls.ip}:2376", "--name", "h2", url=url, code=1)
    assert "a host 'h2' already exists" in out.err
    out = run("hosts", "add", tls.socket, "--name", "again", url=url).out
    assert "host 'h2' already has this engine" in out
    out = run("hosts", "add", "gpu2", url=url, code=1)
    assert "must be like ssh://user@gpu2" in out.err
    for name in ("nobody", "again", "10.213.7.77"):
        run("hosts", "rm", name, url=url)
    assert {h["id"] for h in served.http.get("/api/v1/hosts").json()} == {"local", *hosts.hosts}


def test_a_host_whose_cable_is_cut_loses_its_job_and_is_cleared_on_return(served: Service, hosts: Lab) -> None:
    job = submit(served, gpus=4)
    served.wait(job, "running")
    lost = home(served, hosts, job)
    first = f"schedulearn-{job}-1-0"
    lost.cut()
    wait_for(lambda: served.job(job)["attempt"] == 2 and served.job(job)["state"] == "running", seconds=SLOW)
    assert home(served, hosts, job) is not lost
    assert lost.running() == [first]
    check_leases(served)
    # As many as there are GPUs: the lost host gets one only once the old container is gone.
    others = [submit(served, gpus=4) for _ in range(2)]
    lost.mend()
    for other in others:
        served.wait(other, "running", seconds=SLOW)
    assert first not in lost.containers()
    assert len({home(served, hosts, each).name for each in (job, *others)}) == 3
    check_leases(served)
    events = [event["code"] for event in served.http.get(f"/api/v1/jobs/{job}/events").json()["items"]]
    assert "host_lost" in events


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_an_engine_that_is_restarted_loses_no_job(served: Service, hosts: Lab, how: signal.Signals) -> None:
    jobs = [submit(served, gpus=4, max_restarts=0) for _ in range(3)]
    for job in jobs:
        served.wait(job, "running")
    victim = home(served, hosts, jobs[0])
    victim.stop(how)
    victim.start()
    wait_for(lambda: served.job(jobs[0])["attempt"] == 2, seconds=SLOW, what="the job to be started again")
    for job in jobs:
        served.wait(job, "running")
    assert [served.job(job)["attempt"] for job in jobs] == [2, 1, 1]
    check_leases(served)


def test_a_container_that_somebody_kills_is_started_again_and_a_command_that_kills_itself_fails(
    served: Service, hosts: Lab
) -> None:
    # Not in the seconds in which a host that has just come may still be clearing up.
    victim, own = submit(served), submit(served, "sh -c 'sleep 20; kill -9 $$'")
    served.wait(victim, "running")
    home(served, hosts, victim).docker("kill", f"schedulearn-{victim}-1-0")
    wait_for(lambda: served.job(victim)["attempt"] == 2 and served.job(victim)["state"] == "running", seconds=30)
    assert served.wait(own, "failed")["exit_code"] == 137


def test_a_drain_waits_for_rigid_jobs_and_no_longer_than_its_deadline(served: Service, hosts: Lab) -> None:
    short, long = submit(served, "sleep 2", gpus=2), submit(served, gpus=2)
    served.wait(long, "running")
    place = home(served, hosts, long)
    assert served.job(short)["tasks"][0]["host"] == place.name
    drained = time.time()
    run("hosts", "drain", place.name, "--deadline", "15", url=str(served.http.base_url))
    assert host(served, place.name)["state"] == "draining"
    assert served.wait(short, "succeeded", "failed")["attempt"] == 1
    wait_for(lambda: served.job(long)["attempt"] == 2 and served.job(long)["state"] == "running", seconds=60)
    stopped = datetime.fromisoformat(served.job(long)["tasks"][0]["finished_at"]).timestamp()
    assert stopped >= drained + 15, "a rigid job may run until the deadline"
    assert home(served, hosts, long) is not place
    wait_for(lambda: place.containers() == [], seconds=30)
    run("hosts", "rm", place.name, url=str(served.http.base_url))


def test_a_service_that_restarts_finds_its_hosts_and_what_runs_there(served: Service, hosts: Lab) -> None:
    jobs = [submit(served, gpus=4) for _ in range(3)]
    for job in jobs:
        served.wait(job, "running")
    served.kill()
    served.start()
    wait_for(lambda: all(host(served, name)["reachable"] for name in hosts.hosts), seconds=30)
    assert [served.job(job)["attempt"] for job in jobs] == [1, 1, 1]
    served.http.delete(f"/jobs/{jobs[0]}")
    served.wait(jobs[0], "cancelled", seconds=30)


def test_an_image_is_copied_from_the_host_that_has_it(served: Service, hosts: Lab, tmp_path: Path) -> None:
    source = hosts.hosts["h2"]
    source.docker("tag", IMAGE, "schedulearn-lab/only-here:1")
    try:
        # They last: others would wait for the host that has the image rather than for its copy.
        jobs = [served.submit("sleep 600", 4, container_image="schedulearn-lab/only-here:1") for _ in range(3)]
        for job in jobs:
            begun = served.wait(job, "running", "failed", seconds=SLOW)
            assert begun["state"] == "running", begun["message"]
        assert {served.job(job)["tasks"][0]["host"] for job in jobs} == set(hosts.hosts)
        for job in jobs:
            served.http.delete(f"/jobs/{job}")
        for job in jobs:
            served.wait(job, "cancelled", seconds=SLOW)
    finally:
        for each in hosts.hosts.values():
            each.docker("rmi", "schedulearn-lab/only-here:1", check=False)
