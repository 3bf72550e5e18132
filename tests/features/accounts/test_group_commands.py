"""`schedulearn groups`: users who share a quota."""

from __future__ import annotations

import getpass
from collections.abc import Iterator

import pytest
from services import Service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("groups") / "data") as served:
        yield served


def test_a_group_from_its_making_to_its_end(service: Service) -> None:
    me = getpass.getuser()
    assert (
        service.invoke("groups", "set", "vision", "--gpus", "0", "--waiting", "5").out == "vision: gpus 0, waiting 5\n"
    )
    assert service.invoke("groups", "add", "vision", me, "ben").out == f"vision: {', '.join(sorted([me, 'ben']))}\n"
    head, row = service.invoke("groups", "ls").out.splitlines()
    columns = ["GPUS", "GPU-HOURS", "WAITING", "CPU-JOBS", "CPUS", "MEMORY-GIB", "A-MINUTE", "PRIO", "MAX-TIME", "TIME"]
    assert head.split() == ["GROUP", *columns, "GUARANTEED", "BORROWED", "USERS"]
    assert row.split()[:8] == ["vision", "0", "of", "0", "-", "0", "of", "5"]
    assert service.invoke("whoami").out.splitlines()[1:] == [
        "in the group vision", "  GPUs at once: 0 of 0", "  jobs waiting: 0 of 5",
    ]  # fmt: skip
    assert service.invoke("groups", "drop", "vision", "ben").out == "ben is not in vision any more\n"
    assert "not in the group" in service.invoke("groups", "drop", "vision", "ben", code=1).err
    assert service.invoke("groups", "ls", "--json").json["items"][0]["members"] == [me]
    assert service.invoke("groups", "rm", "vision").out == "vision is removed\n"
    assert "there is no group 'vision'" in service.invoke("groups", "add", "vision", me, code=1).err


def test_a_guarantee_is_set_and_shown(service: Service) -> None:
    me = getpass.getuser()
    made = service.invoke("groups", "set", "speech", "--guarantee", "1", "--waiting", "9").out
    assert made.splitlines() == ["speech: waiting 9", "guaranteed GPUs: 1"]
    service.invoke("groups", "add", "speech", me)
    assert service.invoke("whoami").out.splitlines()[-1] == "  GPUs held: 0, guaranteed: 1, borrowed: 0"
    head, row = service.invoke("quota", "ls").out.splitlines()[-2:]
    assert head.split() == ["GROUP", "GPUS", "HELD", "GUARANTEED", "BORROWED"]
    assert row.split() == ["speech", "0", "1", "0"]
    refused = service.invoke("groups", "set", "speech", "--guarantee", "h100=1", code=1).err
    assert "1 GPU of type h100, and the cluster has 0" in refused
    assert "use a number of GPUs" in service.invoke("groups", "set", "speech", "--guarantee", "a100", code=2).err
    assert service.invoke("groups", "ls", "--json").json["items"][0]["guarantee"] == {"any": 1}
    service.invoke("groups", "rm", "speech")
