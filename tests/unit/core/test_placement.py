from hypothesis import given
from hypothesis import strategies as st

from schedulearn.scheduler.core.planning.placement import GpuState, place

gpu_sets = st.builds(
    lambda taken: [GpuState(f"{h}-{i}", h, i, frozenset(slots)) for (h, i), slots in taken.items()],
    st.dictionaries(
        st.tuples(st.sampled_from("abc"), st.integers(0, 5)), st.sets(st.integers(0, 1)), min_size=1, max_size=12
    ),
)
wishes = st.lists(
    st.tuples(st.integers(0, 99).map(str), st.dictionaries(st.sampled_from("abcd"), st.integers(1, 4), max_size=2)),
    max_size=8,
    unique_by=lambda wish: wish[0],
)


@given(gpus=gpu_sets, wanted=wishes, jobs_per_gpu=st.integers(1, 2))
def test_a_slot_is_never_given_twice_and_a_job_gets_just_what_it_asked_for(
    gpus: list[GpuState], wanted: list[tuple[str, dict[str, int]]], jobs_per_gpu: int
) -> None:
    host_of = {gpu.uuid: gpu.host_id for gpu in gpus}
    used = {(gpu.uuid, slot) for gpu in gpus for slot in gpu.taken_slots}
    asked = dict(wanted)
    for job_id, placement in place(wanted, gpus, jobs_per_gpu).items():
        assert {h: len(claims) for h, claims in placement.items()} == asked[job_id]
        for host_id, claims in placement.items():
            assert len({c.gpu_uuid for c in claims}) == len(claims)
            for claim in claims:
                assert host_of[claim.gpu_uuid] == host_id
                assert 0 <= claim.slot < jobs_per_gpu
                assert (claim.gpu_uuid, claim.slot) not in used
                used.add((claim.gpu_uuid, claim.slot))


def test_neighbours_stay_together_and_the_emptiest_come_first() -> None:
    gpus = [GpuState(f"g{i}", "h", i, frozenset({0} if i < 2 else ())) for i in range(4)]
    [claims] = place([("j", {"h": 2})], gpus, jobs_per_gpu=2)["j"].values()
    assert [c.gpu_uuid for c in claims] == ["g2", "g3"]


def test_a_job_that_does_not_fit_leaves_its_gpus_to_the_next() -> None:
    gpus = [GpuState(f"g{i}", "h", i) for i in range(2)]
    assert list(place([("big", {"h": 2, "x": 1}), ("small", {"h": 2})], gpus)) == ["small"]


def test_a_busy_gpu_is_not_shared() -> None:
    gpu = GpuState("g", "h", 0, frozenset({0}), utilization=95.0)
    assert place([("j", {"h": 1})], [gpu], jobs_per_gpu=2, max_utilization=90.0) == {}
    assert place([("j", {"h": 1})], [gpu], jobs_per_gpu=2, max_utilization=96.0) != {}


def linked(*islands: int | None, numa: tuple[int, ...] | None = None) -> list[GpuState]:
    return [
        GpuState(f"g{i}", "h", i, island=island, numa=numa[i] if numa else None) for i, island in enumerate(islands)
    ]


def picked(gpus: list[GpuState], count: int) -> list[str]:
    return [claim.gpu_uuid for claim in place([("j", {"h": count})], gpus)["j"]["h"]]


def test_a_job_stays_within_an_nvlink_island_and_takes_the_tightest() -> None:
    gpus = linked(0, 1, 0, 1, 0, 1, 2, 2)
    assert picked(gpus, 2) == ["g6", "g7"]
    assert picked(gpus, 3) == ["g0", "g2", "g4"]
    assert picked(gpus, 5) == ["g0", "g2", "g4", "g6", "g7"], "two islands, and of those that fit the smaller"
    assert picked(gpus[:-1], 1) == ["g6"]


def test_within_an_island_a_job_stays_on_one_numa_node() -> None:
    gpus = linked(*[0] * 6, numa=(0, 1, 0, 1, 0, 1))
    assert picked(gpus, 3) == ["g0", "g2", "g4"]
    assert picked(gpus[1:], 2) == ["g2", "g4"]
    assert picked(linked(None, None, None), 2) == ["g0", "g1"], "unknown is one group"


def test_emptiness_comes_before_closeness() -> None:
    gpus = [GpuState(f"g{i}", "h", i, frozenset({0} if i == 1 else ()), island=i // 2) for i in range(4)]
    [claims] = place([("j", {"h": 2})], gpus, jobs_per_gpu=2)["j"].values()
    assert [c.gpu_uuid for c in claims] == ["g2", "g3"]
