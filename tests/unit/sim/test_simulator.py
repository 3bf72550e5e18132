"""What the simulator keeps account of: what is held, done, lost by restarts; and says what is wrong with a trace."""

import itertools
import json
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from builders import host

from schedulearn.features.simulate.report import mean_level
from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.policies.registry import make_policy
from schedulearn.scheduler.sim import workload
from schedulearn.scheduler.sim.arguments import equal_hosts, parse_policies, parse_trace, parse_types
from schedulearn.scheduler.sim.conditions import POLLUX, Conditions
from schedulearn.scheduler.sim.result import summarize
from schedulearn.scheduler.sim.run import Run
from schedulearn.scheduler.sim.simulator import Simulation
from schedulearn.scheduler.sim.workload import TraceJob, load_applications, load_trace, rigid_application

HOSTS = equal_hosts(2, 4)


def trace(count: int = 12, seed: int = 1) -> list[TraceJob]:
    """Elastic jobs of the two short applications, and rigid ones of two GPUs."""
    known = load_applications()
    mix = [(known["ncf"], 1.0, (1,)), (known["cifar10"], 1.0, (1, 2)), (rigid_application("r", 900.0), 1.0, (2,))]
    return workload.random_trace(seed, count, lambda dice: workload.poisson(dice, 60), mix)


def play(policy: str, jobs: list[TraceJob], conditions: Conditions | None = None) -> Run:
    [contender] = parse_policies(policy)
    return Simulation(contender.make(), jobs, HOSTS, conditions).run()


@pytest.fixture(scope="module", params=["goodput:default", "goodput:speed", "tiresias", "elastic-fifo"])
def run(request: pytest.FixtureRequest) -> Run:
    return play(request.param, trace())


def test_all_jobs_end_after_they_were_submitted(run: Run) -> None:
    assert len(run.outcomes) == 12
    assert all(o.job.submitted_at <= o.started_at < o.ended_at < math.inf for o in run.outcomes)


def test_gpu_seconds_are_conserved(run: Run) -> None:
    for outcome in run.outcomes:
        mine = [held for held in run.held if held.job == outcome.job.id]
        assert outcome.gpu_seconds == pytest.approx(sum(sum(h.allocation.values()) * (h.end - h.begin) for h in mine))
        assert mine[-1].end == outcome.ended_at
    assert summarize(run).gpu_hours == pytest.approx(sum(o.gpu_seconds for o in run.outcomes) / 3600)


def test_no_host_ever_holds_more_than_it_has_and_no_job_is_in_two_places(run: Run) -> None:
    for instant in sorted({held.begin for held in run.held}):
        now = [held for held in run.held if held.begin <= instant < held.end]
        assert len({held.job for held in now}) == len(now)
        for each in run.hosts:
            assert sum(held.allocation.get(each.id, 0) for held in now) <= each.gpus


def test_rigid_jobs_run_for_their_length_and_a_cold_start_on_what_they_asked_for(run: Run) -> None:
    rigid = [o for o in run.outcomes if not o.job.elastic]
    assert len(rigid) >= 2
    for outcome in rigid:
        assert outcome.ended_at - outcome.started_at == pytest.approx(900 + 10)
        assert outcome.gpu_seconds == pytest.approx(2 * 910)


def test_equal_seeds_give_equal_runs() -> None:
    first, second = (play("goodput:speed", trace()) for _ in range(2))
    assert first.outcomes == second.outcomes
    assert first.held == second.held
    assert trace() == trace()
    assert trace(seed=2) != trace()


class _Script(Policy):
    """Gives what a script says, by time."""

    name: ClassVar[str] = "script"

    def __init__(self, *steps: tuple[float, dict[str, dict[str, int]]]) -> None:
        self.steps = steps

    def allocate(self, snapshot: Snapshot) -> Plan:
        due = [wanted for at, wanted in self.steps if at <= snapshot.now + 1e-6][-1]
        later = [at for at, _ in self.steps if at > snapshot.now + 1e-6]
        here = {job.id for job in snapshot.jobs}
        return Plan({k: v for k, v in due.items() if k in here}, review_at=min(later, default=None))


def test_restarts_cost_what_the_conditions_say() -> None:
    """Two jobs of 100 s that may be stopped, on one GPU: a runs from 0 to 50, b from 50 to the end, then a goes on."""
    length = rigid_application("fixed", 100.0)
    jobs = [TraceJob(name, 0.0, length, elastic=True) for name in "ab"]
    policy: Policy = _Script((0, {"a": {"h1": 1}}), (50, {"b": {"h1": 1}}), (160, {"a": {"h1": 1}, "b": {"h1": 1}}))
    conditions = Conditions(cold_start=10, stall_up=5, stall_down=1)
    a, b = Simulation(policy, jobs, [host(gpus=1)], conditions).run().outcomes
    # a trains 40 of its first 50 s; b starts cold at 50 and needs 110 s; a needs 5 s and the 60 that are left.
    assert (b.started_at, b.ended_at, b.gpu_seconds, b.restarts, b.stalls) == pytest.approx((50, 160, 110, 0, 10))
    assert (a.started_at, a.ended_at, a.gpu_seconds, a.restarts, a.stalls) == pytest.approx((0, 225, 115, 1, 15))


def test_ticks_alone_let_a_job_wait_for_the_next_one() -> None:
    jobs = [TraceJob("a", 0.0, rigid_application("x", 10.0), elastic=False)]
    jobs += [TraceJob("b", 61.0, rigid_application("x", 10.0), elastic=False)]
    starts = [outcome.started_at for outcome in play("fifo", jobs, POLLUX).outcomes]
    assert starts[0] == 0
    assert starts[1] in (61.0, 120.0)  # an idle cluster may look at once
    busy = [TraceJob("long", 0.0, rigid_application("x", 500.0), elastic=False), jobs[1]]
    assert play("fifo", busy, POLLUX).outcomes[1].started_at == 120
    assert play("fifo", busy, Conditions()).outcomes[1].started_at == 61


def test_work_done_is_the_work_there_was() -> None:
    """Alone on one GPU at the initial batch, a job takes its steps times the time of one, whoever decides."""
    app = load_applications()["cifar10"]
    one = workload.replace(
        app, bounds=workload.BatchBounds(app.bounds.init_batch, app.bounds.init_batch, 1), total_steps=500.0
    )
    assert app.times is not None
    job = TraceJob("a", 0.0, one, max_gpus=1)
    _, step = app.times.passes((1,), app.bounds.init_batch)
    [outcome] = play("fifo", [job], Conditions(cold_start=0)).outcomes
    assert outcome.ended_at == pytest.approx(500 * step, rel=1e-6)


def test_hosts_are_switched_off_and_on_as_the_policy_wants() -> None:
    jobs = parse_trace("poisson:15@12", 0)
    conditions = Conditions(scaling=True, scale_window=300.0, boot=60.0, careful_batches=False)
    on = Simulation(make_policy("goodput"), jobs, equal_hosts(8, 2), conditions).run()
    assert on.on is not None
    assert all(math.isfinite(o.ended_at) for o in on.outcomes), "every job ends all the same"
    end = max(o.ended_at for o in on.outcomes)
    assert all(0 <= begin <= stop <= end for begin, stop in on.on)
    hours = sum(stop - begin for begin, stop in on.on)
    assert len(on.on) > len(on.hosts), "some were off, and some of those on again"
    assert hours < 0.95 * end * len(on.hosts)
    # Nothing runs on a host that is off.
    instants = sorted({held.begin for held in on.held})
    for at in instants:
        busy = {h for held in on.held if held.begin <= at < held.end for h in held.allocation}
        assert len(busy) <= sum(1 for begin, stop in on.on if begin <= at < stop)
    assert summarize(on).host_hours == pytest.approx(hours / 3600)
    fifo = Simulation(make_policy("fifo"), jobs, equal_hosts(8, 2), conditions).run()
    assert fifo.on is not None
    assert all(math.isfinite(o.ended_at) for o in fifo.outcomes)
    assert sum(stop - begin for begin, stop in fifo.on) < 0.95 * 8 * max(stop for _, stop in fifo.on)
    assert {o.restarts for o in fifo.outcomes} == {0}, "idle hosts are parked, and nobody is moved for it"


@pytest.mark.parametrize("algorithm", ["fifo", "tiresias"])
def test_one_of_two_hosts_is_on_at_first_and_the_other_is_woken_for_a_job_that_waits(algorithm: str) -> None:
    jobs = [
        TraceJob(
            f"j{i}", 100.0 * i, rigid_application("x", 300.0), required_gpus=2, min_gpus=2, max_gpus=2, elastic=False
        )
        for i in range(2)
    ]
    conditions = Conditions(scaling=True, initial_hosts=1, scale_window=60.0, boot=50.0, cold_start=0.0)
    run = Simulation(make_policy(algorithm), jobs, equal_hosts(2, 2), conditions).run()
    assert [o.started_at for o in run.outcomes] == [0.0, 150.0]
    assert run.on is not None
    assert sorted(begin for begin, _ in run.on) == [0.0, 100.0]
    one = Simulation(make_policy(algorithm), jobs, equal_hosts(2, 2), replace(conditions, most_hosts=1)).run()
    assert [o.started_at for o in one.outcomes] == [0.0, 300.0], "no more than one may be on"
    assert one.on is not None
    assert len(one.on) == 1


def test_a_job_that_fits_nowhere_never_ends_and_is_counted() -> None:
    jobs = [TraceJob("big", 0.0, rigid_application("x", 10.0), required_gpus=9, min_gpus=9, elastic=False)]
    jobs += [TraceJob("small", 1.0, rigid_application("x", 10.0), elastic=False)]
    found = play("fifo/backfill=true", jobs)
    assert [o.ended_at for o in found.outcomes] == [math.inf, pytest.approx(21)]
    assert summarize(found).unfinished == 1


def first(times: Iterator[float], count: int) -> list[float]:
    return list(itertools.islice(times, count))


def test_poisson_arrivals_have_their_rate_and_spread() -> None:
    gaps = np.diff(first(workload.poisson(random.Random(3), 120), 4000))
    assert gaps.mean() == pytest.approx(30, rel=0.08)
    assert gaps.std() == pytest.approx(30, rel=0.1)


def test_diurnal_arrivals_have_their_rate_over_a_day_and_swing_within_it() -> None:
    times = np.array(first(workload.diurnal(random.Random(3), 100), 4800))
    days = times.max() / 86400
    assert len(times) / days / 24 == pytest.approx(100, rel=0.08)
    hour = times % 86400 / 3600
    noon, night = ((hour > 9) & (hour < 15)).sum(), ((hour < 3) | (hour > 21)).sum()
    assert noon > 5 * night


def test_bursts_come_every_ten_seconds() -> None:
    assert first(workload.bursts(5), 12) == [0.0] * 5 + [10.0] * 5 + [20.0] * 2


def test_what_is_made_up_is_as_many_jobs_as_asked_for() -> None:
    assert len(parse_trace("poisson:30@20", 0)) == 30
    assert [job.submitted_at for job in parse_trace("bursts:2x3@60", 0)] == [0, 0, 60, 60, 120, 120]
    assert parse_trace("diurnal:9@20", 5) == parse_trace("diurnal:9@20", 5)


@pytest.mark.parametrize(
    ("name", "content", "field", "words"),
    [
        ("t.csv", "time,application\n1,ncf\n2,nfc\n", "application", ["line 3", "'nfc'", "bert, cifar10"]),
        ("t.csv", "time,application\n1,ncf\n-1,ncf\n", "time", ["line 3", "time", "from 0 to", "'-1'"]),
        ("t.csv", "time,application\n1795358532180,ncf\n", "time", ["line 2", "to 1e+11", "'1795358532180'"]),
        ("t.csv", "time,application,deadlin\n1,ncf,9\n", "deadlin", ["line 1", "'deadlin'", "did you mean 'deadline'"]),
        ("t.csv", "time,application,user\n1,ncf,me\n", "user", ["line 1", "'user'", "num_replicas"]),
        ("t.csv", "time,application,time\n1,ncf,2\n", "trace", ["line 1", "twice"]),
        ("t.csv", "time,application\n1,ncf\n2,ncf,3\n", "trace", ["line 3", "more values"]),
        ("t.csv", "time,application,num_replicas\n1,ncf,1.5\n", "num_replicas", ["line 2", "whole number", "1.5"]),
        ("t.csv", "time,application,elastic\n1,ncf,maybe\n", "elastic", ["line 2", "elastic", "maybe"]),
        ("t.csv", "time,application,max_gpus,num_replicas\n1,ncf,2,4\n", "max_gpus", ["line 2", "2 GPUs", "4"]),
        ("t.csv", "when,application\n1,ncf\n", "time", ["line 1", "'time'"]),
        ("t.csv", "time,application\n", "trace", ["no jobs"]),
        ("t.csv", "time,application,name\n1,ncf,a\n2,ncf,a\n", "name", ["'a'", "twice"]),
        ("t.csv", b"\xff\xfe\x00", "trace", ["can be read"]),
        ("t.json", '{"jobs": [{"time": "x", "seconds": 3}]}', "time", ["job 0", "time", "'x'"]),
        ("t.json", '{"jobs": [{"time": 0, "seconds": 0}]}', "seconds", ["job 0", "seconds"]),
        ("t.json", '{"jobs": [{"time": 0, "seconds": 9, "priority": 101}]}', "priority", ["job 0", "0 to 100"]),
        (
            "t.json",
            '{"jobs": [{"time": 0, "seconds": 9, "metric": "fast"}]}',
            "metric",
            ["job 0", "default, speed, cost"],
        ),
        ("t.json", '{"jobs": [{"time": 0, "seconds": 9, "elastik": 1}]}', "elastik", ["job 0", "mean 'elastic'"]),
        ("t.json", '{"jobs": [], "application": {}}', "application", ["'application'", "mean 'applications'"]),
        ("t.json", '{"applications": {"x": {"secnds": 9}}, "jobs": []}', "secnds", ["'x'", "mean 'seconds'"]),
        ("t.json", '{"applications": {"x": 9}, "jobs": []}', "applications", ["'x'", "object"]),
        ("t.json", '{"jobs": [7]}', "jobs", ["job 0", "object"]),
        ("t.json", '{"jobs": 7}', "trace", ["list"]),
        ("t.json", "{", "trace", ["t.json", "JSON"]),
        ("t.json", '{"applications": {"x": {}}, "jobs": []}', "applications", ["'x'", "local_batch_size is missing"]),
        ("t.json", '{"applications": {"x": {"seconds": "y"}}, "jobs": []}', "seconds", ["'x'", "'y'"]),
    ],
)
def test_errors_of_a_trace_name_file_place_and_field(
    tmp_path: Path, name: str, content: str | bytes, field: str, words: list[str]
) -> None:
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidError) as caught:
        load_trace(file)
    assert caught.value.field == field
    assert str(file) in str(caught.value)
    assert all(word in str(caught.value) for word in words), caught.value


def test_a_json_trace_brings_its_applications(tmp_path: Path) -> None:
    bert = {
        "init_batch_size": 12, "max_batch_size": 384, "local_batch_size": [4, 12], "total_progress_steps": 14774,
        "throughput": {"alpha_grad": 0.17, "beta_grad": 0.06, "alpha_local": 0.25, "beta_local": 0.04,
                       "alpha_node": 1.4, "beta_node": 0.01, "gamma": 1.9},
        "noise_scale": [[0.5, 420], [1.0, 1120]],
    }  # fmt: skip
    jobs = [
        {"name": "b", "time": 5, "application": "mine", "num_replicas": 2, "min_gpus": 2, "max_gpus": 4, "weight": 2},
        {"time": 1, "seconds": 60, "num_replicas": 2, "deadline": 500, "priority": 90, "metric": "cost"},
        {"time": 2, "application": "fixed", "elastic": True, "num_replicas": 3},
    ]
    file = tmp_path / "t.json"
    file.write_text(json.dumps({"applications": {"mine": bert, "fixed": {"seconds": 30}}, "jobs": jobs}))
    rigid, stoppable, elastic = load_trace(file)
    assert rigid.metric == "cost"
    assert (rigid.id, rigid.elastic, rigid.most_gpus, rigid.deadline, rigid.priority) == ("job-1", False, 2, 500, 90)
    assert (stoppable.elastic, stoppable.min_gpus, stoppable.most_gpus) == (True, 3, 3)
    assert (elastic.elastic, elastic.min_gpus, elastic.most_gpus, elastic.weight) == (True, 2, 4, 2)


def test_every_trace_of_the_repository_can_be_loaded() -> None:
    data = Path(__file__).parents[3] / "bench/data"
    assert {len(load_trace(file)) for file in data.glob("workloads/*.csv")} == {160}
    assert len(load_trace(data / "thesis.json")) == 5


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("poisson:5", "JOBS@PER_HOUR"),
        ("bursts:0x4", "above 0"),
        ("poisson:999999@1", "at most"),
        ("nowhere", "CSV or JSON"),
        ("nowhere.csv", "nowhere.csv"),
    ],
)
def test_arrivals_that_make_no_sense_are_told(wrong: str, words: str) -> None:
    with pytest.raises(InvalidError, match=words):
        parse_trace(wrong, 0)


def test_policies_are_read_with_metric_and_parameters() -> None:
    found = parse_policies("goodput:speed, RR, tiresias/thresholds=[60,600]/promote=4")
    assert [each.label for each in found] == ["goodput:speed", "round-robin", "tiresias/thresholds=[60, 600]/promote=4"]
    assert found[2].make() == make_policy("tiresias", thresholds=[60, 600], promote=4)
    unknown = ("goodput:sped", "fifo,nope", "fifo/backfil=true", "fifo/algorithm=1", "goodput/metric=speed")
    for wrong in (*unknown, "gandiva/quantum", ""):
        with pytest.raises(InvalidError, match=r"valid|no parameter.*key=value"):
            parse_policies(wrong)


def test_hosts_of_several_types_are_read() -> None:
    hosts, speeds = parse_types("t4=2x4,a100=1x8@2.5")
    assert [(h.id, h.gpus, h.gpu_type) for h in hosts] == [("t4-1", 4, "t4"), ("t4-2", 4, "t4"), ("a100-1", 8, "a100")]
    assert speeds == {"t4": 1.0, "a100": 2.5}
    for wrong in ("t4", "t4=0x4", "t4=1x1@0", "t4=1x1,t4=1x1"):
        with pytest.raises(InvalidError):
            parse_types(wrong)


def test_faster_gpus_end_a_job_sooner() -> None:
    job = TraceJob("a", 0.0, load_applications()["cifar10"])
    ended = []
    for text in ("x=1x1", "x=1x1@2"):
        hosts, speeds = parse_types(text)
        conditions = Conditions(cold_start=0, speeds=speeds)
        [outcome] = Simulation(make_policy("fifo"), [job], hosts, conditions).run().outcomes
        ended.append(outcome.ended_at)
    assert ended[0] == pytest.approx(2 * ended[1], rel=0.05)


def test_mean_levels_keep_the_area() -> None:
    edges = np.array([0.0, 10.0, 20.0, 40.0])
    level = mean_level([(5, 15, 2.0), (12, 30, 1.0)], edges)
    assert level == pytest.approx([1.0, (10 + 8) / 10, 10 / 20])
