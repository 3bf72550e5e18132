"""Public names for authors of policies.

A policy sees a `Snapshot` and returns a `Plan`. `make_policy` makes a policy, and `plan_faults` checks its plan.

These names are stable; the modules that define them may move. docs/policies.md has a policy of thirty lines.
"""

from __future__ import annotations

from schedulearn.scheduler.core.model import Explanation, HostView, JobView, Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy, plan_faults
from schedulearn.scheduler.policies.classic.queueing import Room, keep_running
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
