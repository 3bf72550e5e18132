"""A sweep of 200 runs on 8 GPUs while the service is killed: no run is lost, none runs twice, it ends as told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from apis import ask_here
from clusters import wait_for
from lease_checks import check_intervals, check_leases
from services import IMAGE, Service
from sqlalchemy import event, insert, text
from sqlalchemy.engine import Connection

from schedulearn.features.sweeps import tuner
from schedulearn.features.sweeps.service import Sweeps, advance_sweeps
from schedulearn.features.sweeps.spec import SweepSpec
from schedulearn.features.sweeps.trial_rows import sweeps_to_continue, trials_of
from schedulearn.features.sweeps.tuner import Tuner
from schedulearn.scheduler.store.db import Database, sqlite_url
from schedulearn.scheduler.store.models import Metric

RUNS = 200
BAD = (17, 101, 180)


@pytest.mark.long
@pytest.mark.process
def test_a_sweep_of_200_runs_ends_as_told_though_the_service_is_killed_twice(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    command = f"sh -c 'echo ran >> {marks}/{{n}}; test {{n}} != {BAD[0]} -a {{n}} != {BAD[1]} -a {{n}} != {BAD[2]}'"
    job = {"type": "t", "container_image": IMAGE, "launcher": "none", "command": command, "required_gpus": 1}
    body = {"name": "many", "job": job, "list": [{"n": n} for n in range(1, RUNS + 1)], "max_parallel": 30,
            "max_failures": len(BAD)}  # fmt: skip
    with Service(tmp_path / "data", gpus=8) as served:
        sweep = served.call("POST", "/api/v1/sweeps", body)["id"]

        def done() -> int:
            counts = served.call("GET", f"/api/v1/sweeps/{sweep}")["counts"]
            return int(counts["succeeded"] + counts["failed"])

        for part in (RUNS // 4, RUNS // 2):
            wait_for(lambda part=part: done() >= part, seconds=120, what=f"{part} runs", pause=0.05)
            served.kill()
            check_leases(served)
            served.start()
        wait_for(lambda: done() == RUNS, seconds=120, what="all runs", pause=0.05)
        found = wait_for(
            lambda: s if (s := served.call("GET", f"/api/v1/sweeps/{sweep}"))["state"] == "completed" else None
        )
        assert found["message"] == f"Of {RUNS} runs {RUNS - 3} succeeded, 3 failed."
        assert [run["number"] for run in found["table"] if run["state"] == "failed"] == [*BAD]
        assert {run["tries"] for run in found["table"]} == {1}
        assert served.rows("SELECT count(*), count(DISTINCT sweep) FROM job") == [(RUNS, 1)]
        assert served.rows("SELECT count(*) FROM lease") == [(0,)]
        assert sorted(int(mark.name) for mark in marks.iterdir()) == list(range(1, RUNS + 1))
        assert {mark.read_text() for mark in marks.iterdir()} == {"ran\n"}, "a run ran more than once"
        check_intervals(served)


class _Killed(Exception):
    pass


def test_a_service_that_dies_between_any_two_writes_neither_loses_nor_doubles_a_run(tmp_path: Path) -> None:
    """Each statement in turn is the last one that is reached; then the service starts anew."""
    database = Database(sqlite_url(tmp_path))
    job = {"type": "t", "container_image": "img", "command": "{n}", "required_gpus": 1}
    spec = SweepSpec.model_validate({"name": "s", "job": job, "grid": {"n": [1, 2, 3]}, "max_failures": 0})
    left = [-1]

    @event.listens_for(database.engine, "before_cursor_execute")
    def _count(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        left[0] -= statement.startswith(("INSERT", "UPDATE", "DELETE"))
        if left[0] == 0:
            left[0] = -1
            raise _Killed

    def until_it_is_through(step: Callable[[], object]) -> int:
        for kills in range(100):
            left[0] = kills + 1
            try:
                step()
            except _Killed:
                continue
            left[0] = -1
            return kills
        raise AssertionError("it is never through")

    def rows(query: str) -> list[tuple[Any, ...]]:
        with database.read() as conn:
            return [tuple(row) for row in conn.execute(text(query))]

    sweeps = Sweeps(database, lambda: None, lambda spec: None)
    assert until_it_is_through(lambda: sweeps.start(spec, "key")) == 3
    assert rows("SELECT count(*) FROM sweep") == [(1,)]
    assert until_it_is_through(lambda: advance_sweeps(database, 1.0)) == 3
    runs = "SELECT number, name FROM sweep_run JOIN job ON job.id = job_id ORDER BY number"
    assert rows(runs) == [(1, "s-1"), (2, "s-2"), (3, "s-3")]
    assert rows("SELECT count(*) FROM job") == [(3,)]
    database.write(lambda conn: conn.execute(text("UPDATE job SET state='failed', finished_at=1 WHERE name='s-2'")))
    assert until_it_is_through(lambda: advance_sweeps(database, 2.0)) == 8
    assert rows("SELECT name, state FROM job ORDER BY name") == [
        ("s-1", "cancelled"), ("s-2", "failed"), ("s-3", "cancelled")
    ]  # fmt: skip
    assert rows("SELECT state, reason FROM sweep") == [("failed", "too_many_failures")]
    assert until_it_is_through(lambda: sweeps.retry(rows("SELECT id FROM sweep")[0][0])) == 3
    assert rows("SELECT count(*) FROM sweep_run WHERE job_id IS NULL") == [(3,)]
    told = [kind for (kind,) in rows("SELECT kind FROM event WHERE kind LIKE 'sweep.%' ORDER BY id")]
    assert told == ["sweep.running", "sweep.stopping", "sweep.failed", "sweep.running"]
    database.close()


@pytest.mark.process
@pytest.mark.parametrize(
    ("trials", "kills"), [(11, (9, 10)), pytest.param(30, (9, 16, 23, 29), marks=pytest.mark.long)]
)
def test_a_search_loses_no_trial_and_runs_none_twice_though_the_service_is_killed(
    tmp_path: Path, trials: int, kills: tuple[int, ...]
) -> None:
    """Trials write their values to their logs. The service is killed while they are chosen and while they run."""
    marks = tmp_path / "marks"
    marks.mkdir()
    script = tmp_path / "train.sh"
    script.write_text(f"echo ran >> {marks}/$SCHEDULEARN_JOB_ID\necho epoch 1/1 loss=$1\n")
    job = {"type": "t", "container_image": IMAGE, "launcher": "none", "command": f"sh {script} {{x}} {{y}}",
           "required_gpus": 1}  # fmt: skip
    body = {"name": "search", "job": job, "search": "tpe", "trials": trials, "prune": "median",
            "parameters": {"x": {"min": 0.0, "max": 1.0, "type": "float"}, "y": ["a", "b"]},
            "goal": {"metric": "loss", "mode": "min"}}  # fmt: skip
    with Service(tmp_path / "data", gpus=4) as served:
        sweep = served.call("POST", "/api/v1/sweeps", body)["id"]

        def runs() -> int:
            return int(served.call("GET", f"/api/v1/sweeps/{sweep}")["runs"])

        for known in kills:
            wait_for(lambda known=known: runs() >= known, seconds=120, what=f"{known} trials", pause=0.05)
            served.kill()
            check_leases(served)
            served.start()
        found = wait_for(
            lambda: s if (s := served.call("GET", f"/api/v1/sweeps/{sweep}"))["state"] == "completed" else None,
            seconds=120,
        )
        assert found["message"] == f"Of {trials} runs {trials} succeeded."
        assert [run["number"] for run in found["table"]] == list(range(1, trials + 1))
        assert {run["tries"] for run in found["table"]} == {1}
        values = [run["params"]["x"] for run in found["table"]]
        wait_for(
            lambda: [run["best"] for run in served.call("GET", f"/api/v1/sweeps/{sweep}")["table"]] == values,
            what="the values in all logs",
        )
        assert served.rows("SELECT count(*), count(DISTINCT sweep) FROM job") == [(trials, 1)]
        assert {mark.name for mark in marks.iterdir()} == {run["job"] for run in found["table"]}
        assert {mark.read_text() for mark in marks.iterdir()} == {"ran\n"}, "a trial ran more than once"
        check_intervals(served)


def test_a_service_that_dies_while_it_adds_and_prunes_trials_does_both_once(tmp_path: Path) -> None:
    """Each statement in turn is the last one that is reached; then the question is asked anew."""
    database = Database(sqlite_url(tmp_path))
    job = {"type": "t", "container_image": "img", "command": "{n}", "required_gpus": 1}
    spec = SweepSpec.model_validate(
        {"name": "s", "job": job, "search": "tpe", "trials": 10, "parameters": {"n": {"min": 1, "max": 99}},
         "prune": {"method": "asha", "min_step": 1}}
    )  # fmt: skip
    Sweeps(database, lambda: None, lambda spec: None).start(spec)
    assert advance_sweeps(database, 1.0)
    with database.read() as conn:
        [sweep] = sweeps_to_continue(conn)
        jobs = [run.job_id for run in trials_of(conn, sweep)]

    def report(conn: Connection) -> None:
        conn.execute(text("UPDATE job SET state='running', reason='container_running', started_at=1"))
        for number, job_id in enumerate(jobs):
            row = {"job_id": job_id, "name": "loss", "points": [[1, number, 2.0]], "last": number, "lowest": number,
                   "highest": number}  # fmt: skip
            conn.execute(insert(Metric), [row])

    database.write(report)
    left = [-1]

    @event.listens_for(database.engine, "before_cursor_execute")
    def _count(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        left[0] -= statement.startswith(("INSERT", "UPDATE", "DELETE"))
        if left[0] == 0:
            left[0] = -1
            raise _Killed

    def rows(query: str) -> list[tuple[Any, ...]]:
        with database.read() as conn:
            return [tuple(row) for row in conn.execute(text(query))]

    pruned = "SELECT number FROM sweep_run JOIN job ON job.id = job_id WHERE pruned AND reason = 'prune_requested'"
    with patch.object(tuner, "ask_child", ask_here):
        for kills in range(100):
            assert rows("SELECT count(*) FROM sweep_run WHERE pruned") == [(0,)], "half a decision is stored"
            left[0] = kills + 1
            try:
                Tuner(database, lambda: None).step(sweep)
            except _Killed:
                continue
            break
        left[0] = -1
        assert kills > 10
        assert [number for (number,) in rows(pruned)] == list(range(2, 9)), "the best goes on"
        assert rows("SELECT count(*), count(DISTINCT judged_step) FROM sweep_run WHERE judged_step = 1") == [(8, 1)]
        before = rows("SELECT * FROM sweep_run ORDER BY number")
        Tuner(database, lambda: None).step(sweep)
        assert [row[:3] for row in rows("SELECT * FROM sweep_run ORDER BY number")[: len(before)]] == [
            row[:3] for row in before
        ]
        assert rows(pruned) == [(number,) for number in range(2, 9)]
    database.close()
