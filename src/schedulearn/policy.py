"""The public names for authors of policies: what a policy sees (`Snapshot`), what it returns (`Plan`), how to make one
(`make_policy`) and how to check its plan (`plan_faults`).

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
