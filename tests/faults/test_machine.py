"""The same machine, driven by Hypothesis: it looks for the shortest way to break an invariant."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from virtual.runs import FaultRun


class FaultMachine(RuleBasedStateMachine):
    """Everything that happens is a rule; `run` is the harness of the seeds."""

    run: FaultRun | None = None

    @initialize(seed=st.integers(0, 1000), trouble=st.sampled_from([0.0, 1.0]))
    def begin(self, seed: int, trouble: float) -> None:
        self.run = FaultRun(seed, trouble=trouble)

    @rule(what=st.sampled_from([
        "submit", "be_quick", "turn", "look_somewhere", "act", "wait", "cancel", "switch_policy", "kill_now",
        "cut_host", "join_host", "restart_engine", "remove_container", "fail_commits", "step_clock",
    ]))  # fmt: skip
    def step(self, what: str) -> None:
        assert self.run is not None
        self.run.step(getattr(self.run, what))

    @rule(effects=st.integers(1, 12), after=st.booleans())
    def kill(self, effects: int, after: bool) -> None:
        assert self.run is not None
        self.run.effects.kill_soon(effects, after=after)

    @invariant()
    def holds(self) -> None:
        if self.run is not None:
            self.run.invariants.check()

    def teardown(self) -> None:
        if self.run is not None:
            try:
                self.run.settle()
            finally:
                self.run.close()


TestFaultMachine = pytest.mark.slow(FaultMachine.TestCase)
TestFaultMachine.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
