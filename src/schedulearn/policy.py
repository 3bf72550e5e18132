"""For authors of policies, and for checks from outside: what a policy sees (`Snapshot`), what it answers (`Plan`), how
one is made (`make_policy`) and checked (`plan_faults`).

These names stay. Where they live inside may change. docs/policies.md shows a policy of thirty lines.
"""

from __future__ import annotations

from schedulearn.scheduler.core.model import Explanation, HostView, JobView, Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy, plan_faults
from schedulearn.scheduler.policies.queueing import Room, keep_running
from schedulearn.scheduler.policies.registry import make_policy

__all__ = [
    "Explanation",
    "HostView",
    "JobView",
    "Plan",
    "Policy",
    "Room",
    "Snapshot",
    "keep_running",
    "make_policy",
    "plan_faults",
]
