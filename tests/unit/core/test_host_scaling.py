"""How many hosts are to be on, over time."""

from schedulearn.scheduler.core.host_scaling import ScaleDownDelay


def test_more_hosts_are_wanted_at_once_and_fewer_only_after_the_window() -> None:
    delay = ScaleDownDelay(600.0)
    wanted = [(0, 2), (100, 5), (200, 3), (600, 1), (799, 1), (801, 1), (1199, 1), (1201, 1), (1300, 4)]
    assert [delay.settle(float(at), hosts) for at, hosts in wanted] == [2, 5, 5, 5, 5, 3, 3, 1, 4]
    assert delay.settle(1301.0, None) is None
    assert delay.settle(1302.0, 1) == 1, "what another policy wanted is forgotten"


def test_without_a_window_the_policy_has_its_way_at_once() -> None:
    delay = ScaleDownDelay(0.0)
    assert [delay.settle(at, hosts) for at, hosts in ((0.0, 5), (1.0, 1), (2.0, 2))] == [5, 1, 2]
