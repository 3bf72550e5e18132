"""Why jobs wait, with what policies do not see."""

from builders import gpu_record, host_record

from schedulearn.scheduler.control.waiting_reasons import add_shortage_reasons, code_of
from schedulearn.scheduler.core.cluster_state import Gpu
from schedulearn.scheduler.core.model import Explanation
from schedulearn.scheduler.core.states import HostState

HOSTS = [host_record("a"), host_record("b", state=HostState.CORDONED), host_record("c")]


def gpu(host: str, fault: str = "", occupied: str = "") -> Gpu:
    return gpu_record(host_id=host, fault=fault, occupied=occupied)


def test_a_job_that_needs_more_than_may_be_used_is_told_what_may_not() -> None:
    gpus = [gpu("a"), gpu("a", fault="Xid 79"), gpu("a", occupied="ada"), gpu("b"), gpu("b", fault="ECC"), gpu("c")]
    reasons = {
        "large": Explanation("unsatisfiable_now", "It needs 4 GPUs."),
        "small": Explanation("waiting_for_gpus", "It waits."),
    }
    found = add_shortage_reasons(reasons, HOSTS, gpus, {"a", "b"})
    assert found["large"] == (
        "It needs 4 GPUs. Not among them: 2 on cordoned hosts, 1 on hosts that do not answer, 1 unhealthy, "
        "1 used by others."
    )
    assert code_of(found["large"]) == "unsatisfiable_now"
    assert found["small"] == "It waits."


def test_where_all_may_be_used_nothing_is_added() -> None:
    reasons = {"large": Explanation("unsatisfiable_now", "It needs 4 GPUs.")}
    assert add_shortage_reasons(reasons, HOSTS, [gpu("a"), gpu("c")], {"a", "c"}) is reasons
