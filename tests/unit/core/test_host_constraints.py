"""Constraints of jobs on hosts, as users write them and as they are judged."""

from __future__ import annotations

from typing import Any

import pytest
from builders import gpu_record, host_record
from pydantic import ValidationError

from schedulearn.scheduler.core.cluster_state import HostConstraints
from schedulearn.scheduler.core.host_constraints import Misfits, requirement, unfit_hosts
from schedulearn.scheduler.core.task import GIB
from schedulearn.scheduler.specs.job import JobSpec

HOSTS = [
    host_record("ada-1", labels={"room": "b1", "disk": "nvme"}),
    host_record("ada-2"),
    host_record("ada-3", labels={"room": "b2"}),
]
JOB = {"name": "n", "type": "t", "container_image": "i", "command": "c", "required_gpus": 1}


def spec(**keys: Any) -> JobSpec:
    return JobSpec.model_validate({**JOB, **keys})


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("room=b2", ["room=b2"]),
        ("ada-1, ada-3", ["ada-1", "ada-3"]),
        (["ada-1", "ada-1"], ["ada-1"]),
        ({"room": "b2"}, ["room=b2"]),
        ({"room": ["b1", "b2"], "rack": 7}, ["room=b1", "room=b2", "rack=7"]),
        ("", []),
    ],
)
def test_hosts_are_a_text_a_list_or_labels(given: object, stored: list[str]) -> None:
    assert spec(hosts=given).hosts == spec(exclude_hosts=given).exclude_hosts == stored


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"hosts": ["!gpu-3"]}, "invalid host '!gpu-3': write the name of a host, or a label as key=value"),
        ({"hosts": "room="}, "invalid value '' of the label room"),
        ({"hosts": {"room": True}}, "the label 'room' must have a text"),
        ({"hosts": {"room": {"a": "b"}}}, "the label 'room' must have a text"),
        ({"hosts": [f"h{at}" for at in range(101)]}, "at most 100 items"),
        ({"hosts": 7}, "list"),
        ({"gpu_memory_min": "many"}, 'must be a size such as "512m"'),
        ({"gpu_memory_min": "24g", "required_gpus": 0}, "gpu_memory_min needs a job with GPUs"),
        ({"gpu_type": "a100", "required_gpus": 0}, "gpu_type needs a job with GPUs"),
        ({"exclusive": True, "required_gpus": 0}, "exclusive needs a job with GPUs"),
        ({"exclusive": True, "elastic": True}, "exclusive needs a rigid job"),
        ({"gpu_type": [" ", ","]}, "at least 1 item"),
    ],
)
def test_invalid_constraints_say_what_to_write(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as error:
        spec(**keys)
    assert words in str(error.value)


def test_types_are_a_text_or_a_list_also_for_elastic_jobs() -> None:
    assert spec(gpu_type=["a100", "h100"], elastic=True).gpu_type == "a100,h100"
    assert spec(gpu_type="a100, h100").gpu_type == "a100,h100"


def test_a_job_without_constraints_has_none() -> None:
    assert spec().host_constraints is None
    assert spec(hosts="a", exclusive=True, gpu_memory_min="24g").host_constraints == {
        "hosts": ["a"], "exclusive": True, "gpu_memory_min": 24 * GIB,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "unfit"),
    [
        ({"hosts": ["room=b2"]}, {"ada-1": "host ada-1 has room=b1", "ada-2": "host ada-2 has no label room"}),
        ({"hosts": ["room=b2", "room=b1"]}, {"ada-2": "host ada-2 has no label room"}),
        ({"hosts": ["room=b1", "disk=ssd"]}, {
            "ada-1": "host ada-1 has disk=nvme", "ada-2": "host ada-2 has no label disk",
            "ada-3": "host ada-3 has no label disk",
        }),
        ({"hosts": ["ada-1", "ada-2"]}, {"ada-3": "host ada-3 is not one of its hosts"}),
        ({"hosts": ["ada-1", "ada-2", "room=b1"]}, {
            "ada-2": "host ada-2 has no label room", "ada-3": "host ada-3 has room=b2",
        }),
        ({"exclude_hosts": ["ada-2", "room=b2"]}, {
            "ada-2": "the job excludes host ada-2", "ada-3": "the job excludes room=b2, which host ada-3 has",
        }),
        ({"gpu_memory_min": 1}, {}),
    ],
)  # fmt: skip
def test_each_unfit_host_says_why(wanted: HostConstraints, unfit: dict[str, str]) -> None:
    found = unfit_hosts(wanted, HOSTS)
    if wanted.get("hosts") == ["ada-1", "ada-2", "room=b1"]:
        assert found.keys() == unfit.keys()
    else:
        assert found == unfit


def test_the_nominal_memory_of_a_gpu_counts_and_unknown_memory_does_not() -> None:
    """An A10 has 24 GB, and reports 23,028 MiB with ECC."""
    gpus = [
        gpu_record("a", "ada-1", memory_bytes=23_028 << 20),
        gpu_record("b", "ada-2", memory_bytes=16 * GIB),
        gpu_record("c", "ada-3", memory_bytes=0),
    ]
    misfits = Misfits(HOSTS, gpus, {gpu.uuid: gpu.host_id for gpu in gpus})
    assert misfits.of({"gpu_memory_min": 24 * GIB}) == {
        "ada-2": "GPUs of host ada-2 have 16 GiB of memory",
        "ada-3": "GPUs of host ada-3 have an unknown amount of memory",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"hosts": ["room=b2"]}, "on hosts with room=b2"),
        ({"hosts": ["room=b2", "room=b1", "disk=nvme"]}, "on hosts with disk=nvme and room=b1 or b2"),
        ({"hosts": ["ada-2", "ada-1"]}, "on ada-1 or ada-2"),
        ({"exclude_hosts": ["ada-2"]}, "on hosts other than ada-2"),
        ({"hosts": [f"h{at}" for at in range(9)]}, "on h0, h1, h2, h3, h4 or 4 more"),
        (
            {"gpu_memory_min": 24 * GIB, "hosts": ["room=b2"]},
            "with at least 24 GiB of memory each on hosts with room=b2",
        ),
        ({"exclusive": True}, "on hosts where no other job runs"),
        ({"exclusive": True, "hosts": ["ada-1"]}, "on ada-1 where no other job runs"),
    ],
)
def test_constraints_in_words(wanted: HostConstraints, words: str) -> None:
    assert requirement(wanted) == words
