"""Which jobs wait for others, and which can never start."""

from builders import cluster_state, gpu_record, host_record, job_record
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.scheduler.core.cluster_state import After, ClusterState
from schedulearn.scheduler.core.planning.predecessors import blocked_by_dependencies, failed_dependencies
from schedulearn.scheduler.core.planning.snapshot import build_snapshot
from schedulearn.scheduler.core.states import TERMINAL, JobState, Reason

ENDS = sorted(TERMINAL)


def after(*jobs: str, when: str = "ok") -> After:
    return {"jobs": [*jobs], "when": when}  # type: ignore[typeddict-item]


def state(jobs: dict[str, tuple[str, After | None]], ended: dict[str, JobState] | None = None) -> ClusterState:
    records = {name: job_record(name, state, after=needs, attempt=0) for name, (state, needs) in jobs.items()}
    return cluster_state(jobs=records, ended=ended or {}, hosts=[host_record()], gpus=[gpu_record()])


def seen(found: ClusterState) -> list[str]:
    return [job.id for job in build_snapshot(found, {"h1"}, lambda uuid: None, 1.0).jobs]


def test_a_job_that_waits_for_another_is_in_no_snapshot_and_says_so() -> None:
    found = state({"a": ("running", None), "b": ("queued", after("a")), "c": ("queued", after("b", "a", when="any"))})
    assert seen(found) == ["a"]
    why = blocked_by_dependencies(found)
    assert (str(why["b"]), why["b"].code) == ("It waits for job a (running) to succeed.", "waiting_for_jobs")
    assert str(why["c"]) == "It waits for 2 jobs to end; the first of them is job b (queued)."
    assert failed_dependencies(found) == []


def test_it_may_start_once_they_have_succeeded_or_ended() -> None:
    jobs = {"b": ("queued", after("a")), "c": ("queued", after("a", "x", when="any"))}
    found = state(jobs, {"a": JobState.SUCCEEDED, "x": JobState.FAILED})
    assert (seen(found), blocked_by_dependencies(found), failed_dependencies(found)) == (["b", "c"], {}, [])


def test_what_can_never_start_names_who_failed_and_takes_with_it_who_waits_for_it() -> None:
    jobs = {
        "b": ("queued", after("ok", "a")), "c": ("queued", after("b")), "d": ("queued", after("b", when="any")),
        "e": ("queued", after("gone")), "f": ("queued", after("r")), "r": ("running", None),
    }  # fmt: skip
    found = failed_dependencies(state(jobs, {"ok": JobState.SUCCEEDED, "a": JobState.TIMEOUT}))
    assert {moved.reason for moved in found} == {Reason.PREDECESSOR_FAILED}
    assert {moved.job.id: moved.message for moved in found} == {
        "b": "Job a ended as timeout, and this job required its success.",
        "c": "Job b was cancelled, and this job required its success.",
        "e": "Job gone was deleted, and this job required its success.",
    }


def test_a_job_that_has_started_once_needs_the_others_no_more() -> None:
    record = job_record("b", "queued", after=after("gone"), attempt=1)
    found = cluster_state(jobs={"b": record}, hosts=[host_record()], gpus=[gpu_record()])
    assert (seen(found), failed_dependencies(found)) == (["b"], [])


@given(st.lists(st.tuples(st.sets(st.integers(0, 9)), st.sampled_from(["ok", "any"])), max_size=8), st.data())
def test_every_job_waits_may_start_or_is_given_up_and_only_for_a_reason(
    needs: list[tuple[set[int], str]], data: st.DataObject
) -> None:
    """Jobs 0 to 9, each of which may wait for older ones; those that do not stand in `needs` have ended."""
    ended = {str(n): data.draw(st.sampled_from(ENDS)) for n in range(10 - len(needs))}
    jobs = {}
    for n, (wanted, when) in enumerate(needs, 10 - len(needs)):
        older = sorted(str(each) for each in wanted if each < n)
        jobs[str(n)] = ("queued", after(*older, when=when) if older else None)
    found = state(jobs, ended)
    waiting, lost = blocked_by_dependencies(found), {moved.job.id for moved in failed_dependencies(found)}
    for name, (_, need) in jobs.items():
        names = need["jobs"] if need is not None else []
        strict = need is not None and need["when"] == "ok"
        assert (name in waiting) == any(each in jobs for each in names)
        assert (name in lost) == (
            strict and any(each in lost or ended.get(each, JobState.SUCCEEDED) != "succeeded" for each in names)
        )
        assert (name in seen(found)) == (name not in waiting)
