"""A run whose workers may come and go while it trains (docs/adr/0013)."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

from schedulearn.metrics.model.goodput import BatchBounds
from schedulearn.worker.membership import Membership, Roster
from schedulearn.worker.run import Run
from schedulearn.worker.workers import Alone

PARTIAL_S = 20.0  # seconds until all stop if only some are told to, and nobody says that the others go on


class InPlaceRun(Run):
    """Run that is resized in place; without a `membership` it is a plain `Run`."""

    in_place = True

    def __init__(
        self, workers: Alone, bounds: BatchBounds, scaling: str | None, seed: int, membership: Membership | None
    ) -> None:
        self.membership = membership
        self._partly_told_at: float | None = None
        """When some workers, but not all, were first told to stop."""
        super().__init__(workers, bounds, scaling, seed)

    def join(self) -> Alone:
        """Join the workers that the current environment names, in place of the previous ones."""
        raise NotImplementedError

    def leave(self) -> None:
        """Leave the other workers, which go on without this one.

        All workers call this or `join` at the same step."""
        raise NotImplementedError

    @property
    def leads(self) -> bool:
        return super().leads if self.membership is None else self.membership.leads

    def assemble(self) -> None:
        if self.membership is not None:
            self._enter(self.membership.first(lambda: self.stopping))

    def close(self) -> None:
        if self.membership is not None:
            self.membership.close()
        super().close()

    def has_trained(self) -> None:
        if self.membership is not None:
            self.membership.trains()

    def flags(self) -> list[float]:
        """Return the flags of `Run`, and whether all are to continue with other workers."""
        stop, *others = super().flags()
        if self.membership is None:
            return [stop, *others]
        leader = self.workers.rank == 0
        if leader and self._partly_told_at is not None and time.monotonic() - self._partly_told_at > PARTIAL_S:
            stop = float(self.workers.size)
        return [stop, *others, float(leader and self.membership.due())]

    def all_are_to_stop(self, told: float) -> bool:
        """Return whether all workers are to stop.

        If only some were told to stop, they may be leaving while the others go on: the service says so soon."""
        if self.membership is None or told >= self.workers.size:
            return True
        if self._partly_told_at is None:
            self._partly_told_at = time.monotonic()
        return False

    def regroup(self) -> None:
        """Continue with other workers; all new ones are ready.

        New workers get the training's state from the first worker, and need no other copy."""
        assert self.membership is not None
        began = time.time()
        before = self.membership.current.members
        roster = self.workers.broadcast(self.membership.offer() if self.workers.rank == 0 else None)
        if roster is None:
            return
        if self.membership.member not in roster.members:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self.leave()
            raise SystemExit(0)
        self._enter(roster)
        if not set(roster.members) <= set(before):
            self.workers.broadcast(self._whole([], None) if self.workers.rank == 0 else None)
        self._choose()
        self._change_batch()
        self._stopped_at = began
        if self.workers.rank == 0:
            where = f"epoch {self.epoch}, sample {self.position}, step {self.step}"
            print(f"schedulearn: continues at {where}, with {self.workers.size} workers, in place", flush=True)  # noqa: T201

    def _first_state(self) -> dict[str, Any] | None:
        if self.membership is None or self.workers.size == 1:
            return None
        return self._whole(None, None)  # the script could not share its first weights: each worker was alone

    def _enter(self, roster: Roster) -> None:
        assert self.membership is not None
        if 0 < self.samples < len(roster.members):
            raise ValueError(f"{self.samples} samples are not enough for {len(roster.members)} workers")
        self.membership.enter(roster)
        self.workers = self.join()
        self.batch.resize(self.workers.size)
        self.guard.begin(self.batch.total)
        if self.instruments is not None:
            self.instruments.regroup()
        self._warm = 0
        self._partly_told_at = None
