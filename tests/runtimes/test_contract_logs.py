"""The contract of `Runtime`, held against every engine: logs."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from benches import LOG_CAP, SLEEPER, Bench, shell

from schedulearn.scheduler.core.task import EngineState
from schedulearn.scheduler.runtimes.log_store import LogStore


class TestLogs:
    def test_output_can_be_followed_while_it_comes(self, bench: Bench) -> None:
        task_id = bench.start(shell("echo one; sleep 0.5; echo two >&2", lambda r, t: r.write(t, b"one\n")))
        output = bench.runtime.logs(task_id, True)
        assert next(output) == b"one\n"
        assert bench.see(task_id).state is EngineState.RUNNING
        if bench.is_fake:
            bench.runtime.write(task_id, b"two\n")
            bench.runtime.finish(task_id)
        assert b"".join(output) == b"two\n"

    def test_any_bytes_come_through(self, bench: Bench) -> None:
        data = b"\xff\xfe\x00\r\x1b[0m no newline at the end \xe2\x82"
        octal = "".join(f"\\{byte:03o}" for byte in data)
        task_id = bench.start(shell(f"printf '{octal}'", lambda r, t: (r.write(t, data), r.finish(t))))
        assert bench.read(task_id, follow=True) == data

    def test_a_very_long_line_comes_through(self, bench: Bench) -> None:
        line = b"a" * 50_000
        task_id = bench.start(
            shell("head -c 50000 /dev/zero | tr '\\000' a", lambda r, t: (r.write(t, line), r.finish(t)))
        )
        assert bench.read(task_id, follow=True) == line

    def test_of_a_big_log_the_end_is_kept(self, bench: Bench) -> None:
        everything = "".join(f"{n}\n" for n in range(1, 40_001)).encode()
        task_id = bench.start(shell("seq 1 40000", lambda r, t: (r.write(t, everything), r.finish(t))))
        bench.wait_for_end(task_id)
        kept = bench.read(task_id)
        assert everything.endswith(kept)
        assert len(kept) >= LOG_CAP // 2
        assert bench.is_fake or len(kept) <= LOG_CAP

    def test_each_line_has_the_second_in_which_it_was_written(self, bench: Bench, tmp_path: Path) -> None:
        if bench.is_fake:
            return  # keeps its logs in memory
        begun = int(time.time())
        task_id = bench.start(shell("echo one; sleep 1.1; echo two", lambda r, t: None))
        assert bench.read(task_id, follow=True) == b"one\ntwo\n"
        first, second = LogStore(tmp_path / "data" / "logs").times(task_id, 0, 8)
        assert (first.offset, second.offset) == (0, 4)
        assert begun <= first.second < second.second <= time.time()

    def test_closing_ends_those_who_follow(self, bench: Bench) -> None:
        task_id = bench.start(SLEEPER)
        reader = threading.Thread(target=bench.read, args=(task_id,), kwargs={"follow": True})
        reader.start()
        bench.runtime.close()
        reader.join(10)
        assert not reader.is_alive()
