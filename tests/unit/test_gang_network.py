"""Which network NCCL takes: exactly the one that was found, unless the user chose one."""

from typing import Any

import pytest
from schedulearn.worker_images import gang

from schedulearn.worker import membership

PLAN = {"launcher": "none", "node": 0, "slots": [1, 1], "address": "10.0.0.1", "port": 29400, "interface": "eth1"}


@pytest.mark.parametrize(("chosen", "wanted"), [(None, "=eth1"), ("ib0", "ib0"), ("^docker0", "^docker0")])
def test_nccl_gets_an_exact_name_and_the_users_own_choice_stays(
    chosen: str | None, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[Any] = []
    monkeypatch.setattr(gang, "local_addresses", lambda: {"10.0.0.1": "eth1"})
    monkeypatch.setattr(gang, "name_ourselves", lambda ip: None)
    monkeypatch.setattr(gang, "run", lambda commands: ran.extend(commands) or 0)
    if chosen is None:
        monkeypatch.delenv("NCCL_SOCKET_IFNAME", raising=False)
    else:
        monkeypatch.setenv("NCCL_SOCKET_IFNAME", chosen)
    assert gang.main(PLAN, ["train"]) == 0
    [(_, env)] = ran
    assert (env["NCCL_SOCKET_IFNAME"], env["GLOO_SOCKET_IFNAME"]) == (wanted, "eth1")


def test_workers_that_join_in_place_do_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "interface_of", lambda host: "eth1")
    monkeypatch.setattr(membership, "_NCCL_IS_CHOSEN", False)
    assert membership._variables("w", "10.0.0.1:1", 0, 2)["NCCL_SOCKET_IFNAME"] == "=eth1"
    monkeypatch.setattr(membership, "_NCCL_IS_CHOSEN", True)
    assert "NCCL_SOCKET_IFNAME" not in membership._variables("w", "10.0.0.1:1", 0, 2)
