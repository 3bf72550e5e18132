"""The display of a job's state beside its log."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from schedulearn.api.cli import follow


def test_a_look_that_the_end_of_the_command_cuts_off_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command closes its client while the display asks for the job. The thread's error would fail this test."""
    monkeypatch.setattr(follow, "_LOOK_S", 0.0)
    asked, closed = threading.Event(), threading.Event()

    def show(job: str) -> dict[str, Any]:
        asked.set()
        closed.wait(10)
        raise RuntimeError("Cannot send a request, as the client has been closed.")

    session: Any = SimpleNamespace(client=SimpleNamespace(job=show))
    watch = follow._Watch(session, {"id": "a", "state": "queued", "reason": None, "message": None})
    watch._thread.start()
    assert asked.wait(10)
    watch.stop()
    closed.set()
    watch._thread.join(10)
    assert not watch._thread.is_alive()
