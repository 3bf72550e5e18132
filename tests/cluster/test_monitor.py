"""Probes, the loop and the store together: what happens to jobs when something happens to GPUs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from clusters import FakeCluster, spec, wait_for
from fakes.runtime import FakeRuntime
from gpu_probes.memory import FakeProbe, ToldProbe
from sqlalchemy import select

from schedulearn.features.sweeps import table as sweeps
from schedulearn.features.sweeps.spec import SweepSpec
from schedulearn.features.sweeps.worker import SweepWorker
from schedulearn.metrics.probe.machine import MachineCounters
from schedulearn.metrics.probe.readings import GpuHealth, GpuInfo, GpuProcess, Reading, Sample, Xid
from schedulearn.scheduler.core.outcomes import gpu_health
from schedulearn.scheduler.errors import ConflictError, NotFoundError
from schedulearn.scheduler.store import history, repository
from schedulearn.scheduler.store.cluster_state import tasks_of
from schedulearn.scheduler.store.models import GpuMinute, Task
from schedulearn.scheduler.telemetry import host_watch

STRANGER = GpuProcess(77, "train.py", uid=1000)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_health, "OCCUPIED_AFTER_S", 0.1)
    monkeypatch.setattr(gpu_health, "FREE_AFTER_S", 0.1)
    monkeypatch.setattr(gpu_health, "RETURN_AFTER_S", 0.2)


def holds(c: FakeCluster, job: str) -> list[str]:
    with c.cluster.db.read() as db:
        return [uuid for task in tasks_of(db, [job], live=True) for uuid in task.gpu_uuids]


def kinds(c: FakeCluster) -> list[str]:
    with c.cluster.db.read() as db:
        return [event.kind for event in repository.list_events(db) if event.kind.startswith("gpu.")]


def ready(c: FakeCluster, probe: FakeProbe) -> None:
    wait_for(lambda: all(c.cluster.monitor.reading(gpu.uuid) for gpu in probe.gpus), what="the first readings")


def test_gpus_that_the_probe_finds_are_given_by_uuid(tmp_path: Path) -> None:
    probe = FakeProbe(3)
    with FakeCluster(tmp_path, probe=probe) as c:
        [job] = c.submit(spec(gpus=2))
        c.wait(job, "running")
        assert c.runtime.env(c.task(job))["NVIDIA_VISIBLE_DEVICES"] == "GPU-real-0,GPU-real-1"
        assert (c.gpu(probe.uuid(2)).type, c.gpu(probe.uuid(2)).simulated) == ("A100", False)


def test_a_remote_hosts_gpus_come_from_its_probe_and_go_with_the_host(tmp_path: Path) -> None:
    probe = FakeProbe(2, prefix="GPU-far")
    with FakeCluster(tmp_path, gpus=0, others={"far": FakeRuntime("far")}, other_probes={"far": probe}) as c:
        [job] = c.submit(spec(gpus=2))
        c.add("far", gpus=None)
        c.wait(job, "running")
        assert holds(c, job) == ["GPU-far-0", "GPU-far-1"]
        c.cluster.fleet.remove("far", force=True)
        wait_for(lambda: probe.closed and probe.removed, what="the probe to be taken off the host")


def test_a_probe_tells_how_busy_its_host_is(tmp_path: Path) -> None:
    probe = FakeProbe(2, prefix="GPU-far")
    probe.machine = MachineCounters(64, 10.0, 3, 4, 5, 6)
    far = FakeRuntime("far")
    far.resources.of_machine = None  # it can't be seen from here
    with FakeCluster(tmp_path, gpus=0, others={"far": far}, other_probes={"far": probe}) as c:
        c.add("far", gpus=None)
        reading = wait_for(lambda: c.cluster.resources.host("far"))
        assert reading.counters == probe.machine


def test_a_gpu_that_others_use_is_left_alone_until_they_are_gone(tmp_path: Path) -> None:
    probe = FakeProbe(2)
    probe.set(0, processes=(STRANGER,))
    with FakeCluster(tmp_path, probe=probe) as c:
        wait_for(lambda: c.gpu(probe.uuid(0)) and c.gpu(probe.uuid(0)).occupied)
        first, second = c.submit(spec(), spec())
        c.wait(first, "running")
        assert holds(c, first) == [probe.uuid(1)]
        assert c.state(second) == "queued"
        assert "train.py (process 77, user id 1000)" in c.gpu(probe.uuid(0)).occupied
        probe.set(0)
        c.wait(second, "running")
        assert holds(c, second) == [probe.uuid(0)]
        assert kinds(c) == ["gpu.occupied", "gpu.free"]


def test_who_comes_to_a_gpu_that_is_held_takes_nothing_from_its_job(tmp_path: Path) -> None:
    probe = FakeProbe(1)
    with FakeCluster(tmp_path, probe=probe) as c:
        [job] = c.submit()
        c.wait(job, "running")
        ours = GpuProcess(5, "python", task=c.task(job))
        probe.set(0, processes=(ours, STRANGER))
        wait_for(lambda: c.gpu(probe.uuid(0)).occupied)
        assert c.state(job) == "running"
        probe.set(0, processes=(ours,))
        wait_for(lambda: not c.gpu(probe.uuid(0)).occupied)
        c.runtime.finish(c.task(job))
        c.wait(job, "succeeded")


@pytest.mark.slow
@pytest.mark.parametrize("trouble", [{"xids": (Xid(79, 1, 9e9),)}, {"ecc_errors": 3}, {"lost": True}, "vanish"])
def test_an_unhealthy_gpu_loses_its_job_which_starts_elsewhere_and_is_not_given_again(
    tmp_path: Path, trouble: Any
) -> None:
    probe = FakeProbe(2)
    with FakeCluster(tmp_path, probe=probe) as c:
        [job] = c.submit(spec(max_restarts=1))
        c.wait(job, "running")
        assert holds(c, job) == [probe.uuid(0)]
        if trouble == "vanish":
            probe.vanish(0)
        else:
            probe.set(0, **trouble)
        wait_for(lambda: c.job(job).attempt == 2 and c.state(job) == "running")
        assert holds(c, job) == [probe.uuid(1)]
        assert ("stop", c.task(job)) in c.runtime.calls
        [other] = c.submit()
        c.poke()
        assert c.gpu(probe.uuid(0)).fault
        assert c.state(other) == "queued"
        c.cluster.service.cancel(other)  # it would have the GPU while the next try waits
        # What the user allowed is all there still.
        c.runtime.finish(c.task(job, 2), 3)
        wait_for(lambda: c.job(job).attempt == 3)
        assert c.job(job).retries == 1


def test_a_command_that_fails_because_its_gpu_does_is_not_to_blame(tmp_path: Path) -> None:
    """The program notices first: its end waits for the next look at its GPU."""
    probe = FakeProbe(2, interval_s=0.5)
    with FakeCluster(tmp_path, probe=probe) as c:
        [job] = c.submit()
        c.wait(job, "running")
        ready(c, probe)
        probe.set(0, xids=(Xid(79, 1, 9e9),))
        c.runtime.finish(c.task(job), 1)
        wait_for(lambda: c.job(job).attempt == 2 and c.state(job) == "running")
        assert holds(c, job) == [probe.uuid(1)]
        with c.cluster.db.read() as db:
            [first, _] = tasks_of(db, [job])
        assert first.outcome == "gpu_lost"


def test_a_command_that_fails_on_a_healthy_gpu_fails_after_a_look_at_it(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, probe=FakeProbe(1)) as c:
        [job] = c.submit()
        c.wait(job, "running")
        c.runtime.finish(c.task(job), 1)
        assert c.wait(job, "failed").reason == "command_failed"


def xids_of(c: FakeCluster) -> list[tuple[str | None, int]]:
    with c.cluster.db.read() as db:
        return [(event.job_id, event.data["xid"]) for event in repository.list_events(db) if event.kind == "gpu.xid"]


def test_a_burst_of_xids_is_told_once_a_job_and_the_worst_of_it_decides(tmp_path: Path) -> None:
    probe = FakeProbe(2)
    with FakeCluster(tmp_path, probe=probe) as c:
        [job] = c.submit()
        c.wait(job, "running")
        for times in (1, 200, 300):
            probe.set(0, xids=(Xid(48, 1, 9e9), Xid(45, times, 9e9 + times)))
            wait_for(lambda: c.gpu(probe.uuid(0)).fault)
        wait_for(lambda: c.job(job).attempt == 2 and c.state(job) == "running")
        assert holds(c, job) == [probe.uuid(1)]
        # The last ones may have come when no job held the GPU any more.
        assert sorted(each for each in xids_of(c) if each[0] == job) == [(job, 45), (job, 48)]


def test_a_gpu_that_needs_a_reset_keeps_its_job_gets_no_other_and_may_be_returned(tmp_path: Path) -> None:
    probe = FakeProbe(1)
    with FakeCluster(tmp_path, probe=probe) as c:
        [job] = c.submit()
        c.wait(job, "running")
        probe.set(0, xids=(Xid(119, 1, time.time() - 1), Xid(45, 1, time.time() - 1)))
        wait_for(lambda: "Xid 119" in c.gpu(probe.uuid(0)).fault)
        [other] = c.submit()
        c.poke()
        assert (c.state(job), c.job(job).attempt, c.state(other)) == ("running", 1, "queued")
        c.runtime.finish(c.task(job))
        c.wait(job, "succeeded")
        c.poke()
        assert c.state(other) == "queued"
        c.cluster.monitor.return_gpu("local", "0")
        c.wait(other, "running")


def test_a_gpu_is_back_by_itself_when_its_driver_asks_for_nothing(tmp_path: Path) -> None:
    probe = FakeProbe(1)
    with FakeCluster(tmp_path, probe=probe) as c:
        ready(c, probe)
        probe.set(0, xids=(Xid(74, 1, time.time() - 1),), ecc_errors=2, health=GpuHealth(recovery="GPU reset"))
        wait_for(lambda: c.gpu(probe.uuid(0)).fault)
        [job] = c.submit()
        c.poke()
        assert c.state(job) == "queued"
        probe.set(0, xids=(Xid(74, 1, time.time() - 1),), ecc_errors=2, health=GpuHealth(recovery="none"))
        c.wait(job, "running")
        assert kinds(c)[-1] == "gpu.returned"
        assert (c.gpu(probe.uuid(0)).fault, c.gpu(probe.uuid(0)).ecc_accepted) == ("", 2)


def test_programs_that_fail_on_one_gpu_only_take_it_out_of_service_until_they_fail_elsewhere(tmp_path: Path) -> None:
    probe = FakeProbe(2)
    with FakeCluster(tmp_path, probe=probe) as c:
        for number in range(3):
            c.whole_turn()  # it notices that the GPU was left
            wait_for(lambda: c.poke() and not c.cluster.monitor._left, what="the GPU to be given on")
            [job] = c.submit(spec(name="mine"))
            c.wait(job, "running")
            assert (holds(c, job), c.gpu(probe.uuid(0)).fault) == ([probe.uuid(0)], "")
            probe.set(0, xids=(Xid(31, number + 1, time.time()),))
            wait_for(lambda job=job: (job, 31) in xids_of(c))
            c.runtime.finish(c.task(job), 1)
            if number < 2:
                assert c.wait(job, "failed").reason == "command_failed"
        wait_for(
            lambda: c.state(job) == "running" and c.job(job).attempt == 2, what="the last one, which is tried again"
        )
        assert "in 3 jobs within a day" in c.gpu(probe.uuid(0)).fault
        assert holds(c, job) == [probe.uuid(1)]
        probe.set(1, xids=(Xid(31, 1, time.time()),))
        wait_for(lambda: c.gpu(probe.uuid(0)).fault == "", what="the program to be found out")
        assert c.gpu(probe.uuid(1)).fault == ""


def test_an_operator_returns_a_gpu_and_its_old_errors_are_forgiven(tmp_path: Path) -> None:
    probe = FakeProbe(1)
    with FakeCluster(tmp_path, probe=probe) as c:
        ready(c, probe)
        with pytest.raises(ConflictError, match="not unhealthy"):
            c.cluster.monitor.return_gpu("local", "0")
        with pytest.raises(NotFoundError, match="no GPU '7'"):
            c.cluster.monitor.return_gpu("local", "7")
        before = time.time() - 1
        probe.set(0, ecc_errors=3, xids=(Xid(48, 1, before),))
        wait_for(lambda: c.gpu(probe.uuid(0)).fault)
        [job] = c.submit()
        assert c.cluster.monitor.return_gpu("local", "0") == probe.uuid(0)
        c.wait(job, "running")
        assert probe.renewals == 1
        ready(c, probe)
        assert c.gpu(probe.uuid(0)).fault == ""
        probe.set(0, ecc_errors=4, xids=(Xid(48, 1, before),))
        wait_for(lambda: c.gpu(probe.uuid(0)).fault == "1 uncorrected memory errors (ECC)")
        wait_for(lambda: c.leases() == [])


def test_no_look_comes_between_a_return_and_what_is_forgotten_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would not know yet which errors are accepted: the GPU would be out of service again, and stay so."""
    probe, looked = FakeProbe(1), threading.Event()
    last_seen, take = host_watch.last_seen, host_watch.HostWatch._take_sample

    def slowly(*given: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            looked.clear()
            looked.wait(timeout=2.0)
        return last_seen(*given)

    def noted(self: host_watch.HostWatch, sample: Sample) -> None:
        take(self, sample)
        looked.set()

    with FakeCluster(tmp_path, probe=probe) as c:
        ready(c, probe)
        probe.set(0, ecc_errors=3)
        wait_for(lambda: c.gpu(probe.uuid(0)).fault)
        monkeypatch.setattr(host_watch, "last_seen", slowly)
        monkeypatch.setattr(host_watch.HostWatch, "_take_sample", noted)
        c.cluster.monitor.return_gpu("local", "0")
        c.wait(*c.submit(), "running")


def test_a_gpu_that_was_taken_out_is_forgotten_when_it_is_returned(tmp_path: Path) -> None:
    probe = FakeProbe(2)
    with FakeCluster(tmp_path, probe=probe) as c:
        ready(c, probe)
        gone = probe.uuid(1)
        probe.vanish(1)
        wait_for(lambda: c.gpu(gone).fault)
        c.cluster.monitor.return_gpu("local", gone)
        assert (c.gpu(gone).present, c.gpu(gone).fault) == (False, "")
        probe.gpus.append(GpuInfo(gone, 1, "A100", 1 << 34))
        wait_for(lambda: c.gpu(gone).present)
        assert c.gpu(gone).fault == ""


def test_gpus_that_can_not_be_asked_stop_nothing_and_are_given_to_nobody_until_they_answer(tmp_path: Path) -> None:
    probe = FakeProbe(2)
    with FakeCluster(tmp_path, probe=probe) as c:
        [job] = c.submit()
        c.wait(job, "running")
        shown, probe.gpus, probe.problem = probe.gpus, [], "Unknown Error"
        wait_for(lambda: c.gpu(probe.uuid(0)).unwatched == "Unknown Error")
        assert "may be incomplete: Unknown Error" in c.cluster.monitor.problem("local")
        [other] = c.submit()
        why = wait_for(lambda: c.cluster.loop.waiting.get(other))
        assert "On local: Unknown Error." in str(why)
        [third] = c.submit(spec(gpus=2))
        why = wait_for(lambda: c.cluster.loop.waiting.get(third))
        assert "Not among them: 2 that can't be asked. On local: Unknown Error." in str(why)
        c.cluster.service.cancel(third)
        c.poke()
        assert (c.state(job), c.job(job).attempt, c.state(other)) == ("running", 1, "queued")
        assert c.gpu(probe.uuid(0)).fault == ""
        probe.gpus, probe.problem = shown, ""
        c.wait(other, "running")
        assert c.state(job) == "running"
        assert c.cluster.monitor.problem("local") == ""
        assert kinds(c) == ["gpu.unwatched", "gpu.watched"]


def test_one_gpu_that_can_not_be_asked_leaves_the_others_in_service(tmp_path: Path) -> None:
    probe = FakeProbe(2)
    with FakeCluster(tmp_path, probe=probe) as c:
        ready(c, probe)
        probe.problem = "GPU 0 can't be queried: Timeout"
        probe.vanish(0)
        wait_for(lambda: c.gpu(probe.uuid(0)).unwatched)
        [job] = c.submit()
        c.wait(job, "running")
        assert holds(c, job) == [probe.uuid(1)]
        assert c.gpu(probe.uuid(0)).fault == ""


def test_a_job_waits_with_the_reason_on_a_host_whose_driver_never_answered(tmp_path: Path) -> None:
    probe = FakeProbe(0)
    probe.problem = "NVML can't be used: version mismatch"
    with FakeCluster(tmp_path, probe=probe) as c:
        [job] = c.submit()
        why = wait_for(lambda: (why := c.cluster.loop.waiting.get(job)) and "mismatch" in why and why)
        assert "On local: NVML can't be used: version mismatch." in str(why)
        assert c.state(job) == "queued"


def test_gpus_are_gone_only_after_several_inventories_that_answered(tmp_path: Path) -> None:
    """8, none, 8; then 8, 6 and a driver that does not answer, 8; then none for good, and 8 again."""
    probe = ToldProbe(8)
    every = range(8)
    with FakeCluster(tmp_path, probe=probe) as c:

        def unwatched() -> list[int]:
            return [index for index in every if c.gpu(probe.uuid(index)).unwatched]

        def faults() -> set[str]:
            return {c.gpu(probe.uuid(index)).fault for index in every}

        probe.show(*every)
        [job] = c.submit(spec(gpus=8))
        c.wait(job, "running")
        for shown, problem in (((), ""), (every, ""), (every[:6], ""), ((), "Unknown Error"), ((), ""), ((), "")):
            probe.show(*shown, problem=problem)
            wait_for(lambda shown=shown: unwatched() == [index for index in every if index not in shown])
            assert faults() == {""}
        assert (c.state(job), c.job(job).attempt) == ("running", 1)
        probe.show()
        wait_for(lambda: faults() == {gpu_health.VANISHED})
        assert unwatched() == []
        wait_for(lambda: c.state(job) != "running")
        probe.show(*every)
        wait_for(lambda: c.job(job).attempt == 2 and c.state(job) == "running")
        assert faults() == {""}


def test_a_gpu_that_is_listed_again_is_back(tmp_path: Path) -> None:
    probe = FakeProbe(2)
    with FakeCluster(tmp_path, probe=probe) as c:
        ready(c, probe)
        card = probe.gpus[0]
        probe.vanish(0)
        wait_for(lambda: c.gpu(card.uuid).fault == gpu_health.VANISHED)
        probe.gpus.insert(0, card)
        wait_for(lambda: c.gpu(card.uuid).fault == "")
        assert kinds(c) == ["gpu.unwatched", "gpu.unhealthy", "gpu.returned"]


@pytest.mark.parametrize("trouble", [{"xids": (Xid(79, 1, 9e9),)}, {"ecc_errors": 3}])
def test_a_gpu_with_errors_stays_out_of_service_though_it_is_listed_again(
    tmp_path: Path, trouble: dict[str, Any]
) -> None:
    """Also if it was missing first, and had its errors then: a GPU that is not listed may still be read."""
    probe = FakeProbe(2)
    with FakeCluster(tmp_path, probe=probe) as c:
        ready(c, probe)
        card = probe.gpus[0]
        probe.vanish(0)
        wait_for(lambda: c.gpu(card.uuid).fault == gpu_health.VANISHED)
        probe.still_read = [card.uuid]
        probe.set(0, **trouble)
        fault = wait_for(lambda: (now := c.gpu(card.uuid).fault) != gpu_health.VANISHED and now)
        probe.set(0)
        probe.still_read = []
        probe.gpus.insert(0, card)
        wait_for(lambda: c.cluster.monitor.reading(card.uuid) and c.cluster.monitor.reading(card.uuid).ecc_errors == 0)
        assert c.gpu(card.uuid).fault == fault
        assert "gpu.returned" not in kinds(c)


def test_a_gpu_that_is_split_gives_way_to_its_parts(tmp_path: Path) -> None:
    probe = FakeProbe(1)
    with FakeCluster(tmp_path, probe=probe) as c:
        ready(c, probe)
        whole = probe.uuid(0)
        probe.gpus = [GpuInfo(f"MIG-{part}", part, "A100 MIG 1g.5gb", 5 << 30, whole) for part in range(2)]
        jobs = c.submit(spec(), spec())
        for job in jobs:
            c.wait(job, "running")
        assert {uuid for job in jobs for uuid in holds(c, job)} == {"MIG-0", "MIG-1"}
        assert (c.gpu(whole).present, c.gpu(whole).fault) == (False, "")


def test_gpus_of_several_types_on_one_host_are_not_mixed(tmp_path: Path) -> None:
    probe = FakeProbe(1)
    probe.gpus = [GpuInfo(f"SMALL-{part}", part, "A100-PCIE-40GB", 40 << 30) for part in range(2)]
    probe.gpus += [GpuInfo(f"LARGE-{part}", 2 + part, "A100-SXM4-80GB", 80 << 30) for part in range(2)]
    with FakeCluster(tmp_path, probe=probe) as c:
        wait_for(lambda: c.gpu("LARGE-1"), what="its GPUs")
        [one] = c.submit(spec())
        c.wait(one, "running")
        [two] = c.submit(spec(gpus=2))
        c.wait(two, "running")
        assert len({uuid.partition("-")[0] for uuid in holds(c, two)}) == 1
        [left] = c.submit(spec())
        c.wait(left, "running")
        assert not set(holds(c, left)) & {*holds(c, one), *holds(c, two)}
        with c.cluster.db.read() as db:
            assert {task.host_id for task in tasks_of(db, [one, two, left])} == {"local"}


def test_mig_devices_are_given_one_to_a_job(tmp_path: Path) -> None:
    probe = FakeProbe(1)
    probe.gpus = [GpuInfo(f"MIG-{part}", part, "A100 MIG 1g.5gb", 5 << 30) for part in range(3)]
    with FakeCluster(tmp_path, probe=probe) as c:
        wait_for(lambda: c.gpu("MIG-2"), what="its GPUs")
        two, one = c.submit(spec(gpus=2), spec())
        c.wait(one, "running")
        why = wait_for(lambda: c.cluster.loop.waiting.get(two))
        assert "It needs 2 GPUs other than MIG devices; 0 are available." in str(why)
        assert c.state(two) == "queued"


def test_a_gpu_of_two_hosts_is_not_given_twice(tmp_path: Path) -> None:
    twin = FakeProbe(1)
    runtimes = {"twin": FakeRuntime("twin")}
    with FakeCluster(tmp_path, probe=FakeProbe(1), others=runtimes, other_probes={"twin": twin}) as c:
        wait_for(lambda: c.gpu(twin.uuid(0)))
        c.add("twin", gpus=None)
        wait_for(lambda: "already belongs to host 'local'" in c.cluster.monitor.problem("twin"))
        assert c.gpu(twin.uuid(0)).host_id == "local"


def test_a_probe_that_fails_is_told_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_watch, "_BACKOFF_S", (0.01,))
    probe = FakeProbe(1)
    probe.fault = "its image can't be had"
    with FakeCluster(tmp_path, probe=probe) as c:
        wait_for(lambda: "its image can't be had" in c.cluster.monitor.problem("local"))
        probe.fault = ""
        ready(c, probe)
        assert c.cluster.monitor.problem("local") == ""


def test_the_problem_of_a_silent_probe_stays_until_it_tells_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_watch, "SILENT_S", 0.2)
    monkeypatch.setattr(host_watch, "_BACKOFF_S", (0.01,))

    class Hanging(FakeProbe):
        hangs = False

        def readings(self) -> Iterator[Reading]:
            for reading in super().readings():
                if self.hangs and isinstance(reading, Sample):
                    self._poke.get()
                    return
                yield reading

    probe = Hanging(2)
    with FakeCluster(tmp_path, probe=probe) as c:
        ready(c, probe)
        problem = partial(c.cluster.monitor.problem, "local")
        wait_for(lambda: problem() == "")
        probe.hangs = True
        wait_for(problem)
        end = time.monotonic() + 4  # it is followed anew each second or two
        told = set()
        while time.monotonic() < end:
            told.add(problem())
            time.sleep(0.002)
        assert told == {host_watch._SILENT}
        probe.hangs = False
        wait_for(lambda: problem() == "")


def test_a_gpu_that_nvml_hangs_on_is_out_of_service_while_the_others_and_its_job_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_health, "STUCK_AFTER_S", 0.1)
    monkeypatch.setattr(gpu_health, "HINDERED_AFTER_S", 0.1)
    probe = FakeProbe(2)
    with FakeCluster(tmp_path, probe=probe) as c:
        [job] = c.submit()
        c.wait(job, "running")
        probe.set(0, stuck=True, utilization=None, memory_bytes=None, processes=None)
        wait_for(lambda: c.gpu(probe.uuid(0)).fault == gpu_health.STUCK)
        first, second = c.submit(spec(), spec())
        c.wait(first, "running")
        assert holds(c, first) == [probe.uuid(1)]
        assert (c.state(job), c.job(job).attempt, c.state(second)) == ("running", 1, "queued")
        c.runtime.finish(c.task(job), 1)  # a hung GPU takes its program with it
        wait_for(lambda: c.state(job) == "queued")
        with c.cluster.db.read() as db:
            assert [task.outcome for task in tasks_of(db, [job])] == ["gpu_lost"]
        probe.set(0, health=GpuHealth())
        wait_for(lambda: c.gpu(probe.uuid(0)).fault == "")


def test_minutes_and_energy_are_kept(tmp_path: Path) -> None:
    probe = FakeProbe(2)
    with FakeCluster(tmp_path, probe=probe) as c:
        [job] = c.submit()
        c.wait(job, "running")
        joules = iter(range(0, 1_000_000, 7))
        began = time.time()
        while time.time() < began + 0.3:
            probe.set(0, energy_j=float(next(joules)), utilization=70.0)
            time.sleep(0.01)
        c.cluster.monitor._keep(int(began // 60), time.time())
        with c.cluster.db.read() as db:
            rows = {row.gpu_uuid: row for row in db.execute(select(GpuMinute))}
            [task] = db.execute(select(Task)).all()
        assert rows.keys() == {probe.uuid(0), probe.uuid(1)}
        assert 0 < rows[probe.uuid(0)].utilization <= 70
        assert task.energy_joules > 0


def test_simulated_gpus_are_watched_too_but_decide_nothing_and_draw_no_energy(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [job] = c.submit()
        c.wait(job, "running")
        reading = wait_for(lambda: c.cluster.monitor.reading("GPU-0"), what="a reading")
        assert reading.power_w > 0
        wait_for(lambda: (c.cluster.monitor.reading("GPU-0").utilization or 0) > 50)
        assert c.cluster.monitor.reading("GPU-1").utilization == 0
        assert c.cluster.utilization("GPU-0") is None
        c.cluster.monitor._keep(int(time.time() // 60), time.time())
        with c.cluster.db.read() as db:
            [task] = db.execute(select(Task)).all()
        assert task.energy_joules == 0


def test_the_clusters_utility_is_kept_while_the_policy_tells_one(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        c.cluster.service.set_policy("goodput", "cost", {})
        c.submit(spec(gpus=2))
        measured = wait_for(lambda: c.cluster.utility() if c.cluster.utility().utility is not None else None)
        assert (measured.low, measured.high) == (0.35, 0.8)
        c.cluster.monitor._keep(1000, time.time())
        c.cluster.monitor._keep(1000, time.time())
        c.cluster.service.set_policy("fifo", "default", {})
        wait_for(lambda: c.cluster.utility().utility is None)
        c.cluster.monitor._keep(1001, time.time())
        with c.cluster.db.read() as db:
            step, rows = history.utility_minutes(db, 0, 1200)
        assert (step, [(row.minute, row.utility, row.low) for row in rows]) == (2, [(1000, measured.utility, 0.35)])
        c.cluster.db.write(lambda db: history.drop_minutes(db, 1001))
        with c.cluster.db.read() as db:
            assert history.utility_minutes(db, 0, 1200)[1] == []


def test_a_run_of_a_few_seconds_has_its_energy_before_its_experiment_ends(tmp_path: Path) -> None:
    probe = FakeProbe(1)
    with FakeCluster(tmp_path, probe=probe) as c:
        ready(c, probe)
        job = {"type": "t", "container_image": "img", "required_gpus": 1, "launcher": "none", "command": "train {lr}"}
        body = {"name": "s", "job": job, "grid": {"lr": [1]}}
        sweep = c.cluster.worker(SweepWorker).use_cases.start(SweepSpec.model_validate(body)).id

        def runs() -> list[Any]:
            with c.cluster.db.read() as db:
                return sweeps.list_runs(db, sweep, "", limit=1)

        [run] = wait_for(lambda: [each for each in runs() if each.job_id is not None], what="the run's job")
        c.wait(run.job_id, "running")
        time.sleep(0.3)
        c.runtime.finish(c.task(run.job_id))

        def ended() -> bool:
            with c.cluster.db.read() as db:
                return bool(sweeps.get_sweep(db, sweep).state.ended)

        wait_for(ended, what="the end of the experiment")
        [run] = runs()
        with c.cluster.db.read() as db:
            [task] = db.execute(select(Task)).all()
        assert run.results["energy"] == pytest.approx(100.0 * (task.finished_at - task.started_at), rel=0.1)
        assert run.results["gpu_hours"] == pytest.approx((task.finished_at - task.created_at) / 3600, abs=1e-6)
