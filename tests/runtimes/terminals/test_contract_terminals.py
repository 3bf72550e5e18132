"""The contract of `Terminals`, held against every engine: commands that people run in a running task."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from benches import SLEEPER, UNKNOWN, Bench, shell, wait_for

from schedulearn.scheduler.runtimes.contract import Runtime
from schedulearn.scheduler.runtimes.terminals.contract import ERR, OUT, NotRunningError, Size, Terminal

SIZE = Size(80, 24)


@contextmanager
def opened(
    bench: Bench, task_id: str, *argv: str, size: Size | None = None, runtime: Runtime | None = None
) -> Iterator[Terminal]:
    with closing((runtime or bench.runtime).terminals.open(task_id, argv, size)) as terminal:
        yield terminal


def read_until(terminal: Terminal, text: bytes) -> bytes:
    """What it writes, up to a text. A terminal that says nothing ends with the test's time."""
    seen = b""
    while text not in seen:
        piece = terminal.read()
        assert piece is not None, f"it ended without {text!r}: {seen!r}"
        seen += piece[1]
    return seen


def read_all(terminal: Terminal) -> dict[int, bytes]:
    seen = {OUT: b"", ERR: b""}
    while (piece := terminal.read()) is not None:
        seen[piece[0]] += piece[1]
    return seen


def marked(mark: str) -> list[int]:
    """Processes of this machine, in containers or not, that have these words in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.fixture
def seconds() -> str:
    """An argument for `sleep` that no other process has."""
    return f"10{uuid.uuid4().int % 10**12}"


def no_fake(bench: Bench) -> None:
    if bench.is_fake:
        pytest.skip("a fake runs nothing")


class TestPipes:
    def test_what_is_written_arrives_and_comes_back(self, bench: Bench) -> None:
        task_id = bench.start(SLEEPER)
        with opened(bench, task_id, "cat") as terminal:
            terminal.write(b"ab\0\xff\n")
            assert read_until(terminal, b"\n") == b"ab\0\xff\n"
            terminal.end_input()
            assert read_all(terminal)[OUT] == b""
            assert terminal.exit_code() == 0

    def test_output_errors_and_exit_code_are_kept_apart(self, bench: Bench) -> None:
        no_fake(bench)
        task_id = bench.start(SLEEPER)
        with opened(bench, task_id, "sh", "-c", "echo good; echo bad >&2; exit 7") as terminal:
            assert read_all(terminal) == {OUT: b"good\n", ERR: b"bad\n"}
            assert terminal.exit_code() == 7

    def test_much_goes_through_whole(self, bench: Bench) -> None:
        task_id = bench.start(SLEEPER)
        sent = os.urandom(300_000)
        with opened(bench, task_id, "cat") as terminal:

            def write() -> None:
                terminal.write(sent)
                terminal.end_input()

            writer = threading.Thread(target=write)
            writer.start()
            assert read_all(terminal)[OUT] == sent
            writer.join(10)

    def test_it_is_where_the_task_is_and_knows_what_it_knows(self, bench: Bench) -> None:
        no_fake(bench)
        task_id = bench.start(SLEEPER, env={"GREETING": "hello"})
        with opened(bench, task_id, "sh", "-c", 'echo "$GREETING $SCHEDULEARN_TASK $NVIDIA_VISIBLE_DEVICES"') as ours:
            words = read_all(ours)[OUT].split()
        assert words[:2] == [b"hello", task_id.encode()]
        assert words[2].startswith(b"GPU-")

    def test_a_command_that_is_not_there_says_so(self, bench: Bench) -> None:
        no_fake(bench)
        task_id = bench.start(SLEEPER)
        with opened(bench, task_id, "no-such-command") as terminal:
            seen = read_all(terminal)
            assert b"no-such-command" in seen[OUT] + seen[ERR]
            assert terminal.exit_code() in (126, 127)

    def test_a_signal_is_told_by_the_exit_code(self, bench: Bench) -> None:
        no_fake(bench)
        task_id = bench.start(SLEEPER)
        with opened(bench, task_id, "sh", "-c", "kill -TERM $$; sleep 5") as terminal:
            read_all(terminal)
            assert terminal.exit_code() == 128 + signal.SIGTERM


class TestTerminal:
    def test_it_has_a_size_that_changes(self, bench: Bench) -> None:
        no_fake(bench)
        task_id = bench.start(SLEEPER)
        asks = "trap 'echo changed' WINCH; test -t 0 && echo ready; while :; do read line; echo got $line; done"
        with opened(bench, task_id, "sh", "-c", asks, size=SIZE) as terminal:
            read_until(terminal, b"ready")
            terminal.resize(Size(101, 33))
            terminal.write(b"x\n")
            seen = read_until(terminal, b"got x")
            assert b"changed" in seen

    def test_ctrl_c_ends_what_runs_in_it(self, bench: Bench) -> None:
        no_fake(bench)
        task_id = bench.start(SLEEPER)
        with opened(bench, task_id, "cat", size=SIZE) as terminal:
            terminal.write(b"x\n")
            read_until(terminal, b"x\r\nx\r\n")  # its echo, and what cat makes of it
            terminal.write(b"\x03")
            read_all(terminal)
            assert terminal.exit_code() == 128 + signal.SIGINT

    def test_a_fake_notes_sizes(self, bench: Bench) -> None:
        if not bench.is_fake:
            pytest.skip("of a fake")
        task_id = bench.start(SLEEPER)
        with opened(bench, task_id, "sh", size=SIZE) as terminal:
            terminal.resize(Size(101, 33))
        assert bench.runtime.terminals.opened[0][1].sizes == [SIZE, Size(101, 33)]


class TestEnd:
    @pytest.mark.parametrize("size", [None, SIZE])
    def test_closing_leaves_nothing_behind(self, bench: Bench, seconds: str, size: Size | None) -> None:
        no_fake(bench)
        task_id = bench.start(SLEEPER)
        script = f"trap '' HUP TERM; (sleep {seconds} &); sh -c 'trap \"\" HUP; sleep {seconds}' & echo ready; wait"
        with opened(bench, task_id, "sh", "-c", script, size=size) as terminal:
            read_until(terminal, b"ready")
            wait_for(lambda: len(marked(seconds)) >= 3, "its processes")
        assert marked(seconds) == []
        assert bench.see(task_id).state == "running"

    @pytest.mark.parametrize("size", [None, SIZE])
    def test_what_runs_is_hung_up_and_may_clean_up(self, bench: Bench, seconds: str, size: Size | None) -> None:
        """A shell killed while it held a lock in its user's home left that lock for good."""
        no_fake(bench)
        task_id, end = bench.start(SLEEPER), f"/tmp/end-{seconds}"
        inner = f"trap 'echo clean >{end}; exit' HUP; echo ready; sleep {seconds} & wait"
        with opened(bench, task_id, "sh", "-c", f'sh -c "{inner}"; true', size=size) as terminal:
            read_until(terminal, b"ready")
        with opened(bench, task_id, "cat", end) as look:
            assert read_all(look)[OUT] == b"clean\n"
        Path(end).unlink(missing_ok=True)  # of a local task

    def test_what_a_command_left_when_it_ended_goes_too(self, bench: Bench, seconds: str) -> None:
        no_fake(bench)
        task_id = bench.start(SLEEPER)
        with opened(bench, task_id, "sh", "-c", f"sleep {seconds} >/dev/null 2>&1 & exit 3") as terminal:
            read_all(terminal)
            assert terminal.exit_code() == 3
        assert marked(seconds) == []

    def test_closing_ends_a_read_that_waits(self, bench: Bench) -> None:
        task_id = bench.start(SLEEPER)
        terminal = bench.runtime.terminals.open(task_id, ["cat"], None)
        seen: list[object] = []
        reader = threading.Thread(target=lambda: seen.append(terminal.read()))
        reader.start()
        terminal.close()
        terminal.close()
        reader.join(10)
        assert seen == [None]
        terminal.write(b"nobody reads it")

    def test_it_ends_with_its_task(self, bench: Bench) -> None:
        task_id = bench.start(SLEEPER)
        with opened(bench, task_id, "cat") as terminal:
            bench.runtime.stop(task_id, 0)
            read_all(terminal)
            assert terminal.exit_code() != 0

    def test_other_terminals_of_the_task_go_on(self, bench: Bench) -> None:
        task_id = bench.start(SLEEPER)
        with opened(bench, task_id, "cat") as first:
            with opened(bench, task_id, "cat"):
                pass
            first.write(b"still here\n")
            read_until(first, b"still here\n")


class TestRefusals:
    @pytest.mark.parametrize("task_id", UNKNOWN)
    def test_there_is_no_terminal_in_what_is_not_there(self, bench: Bench, task_id: str) -> None:
        with pytest.raises(NotRunningError):
            bench.runtime.terminals.open(task_id, ["true"], None)

    def test_nor_in_a_task_that_has_ended(self, bench: Bench) -> None:
        task_id = bench.start(SLEEPER)
        bench.runtime.stop(task_id, 0)
        with pytest.raises(NotRunningError):
            bench.runtime.terminals.open(task_id, ["true"], None)

    def test_nor_in_a_paused_one(self, bench: Bench) -> None:
        task_id = bench.start(SLEEPER)
        bench.runtime.pause(task_id)
        with pytest.raises(NotRunningError):
            bench.runtime.terminals.open(task_id, ["true"], None)
        bench.runtime.resume(task_id)

    def test_closed_while_its_task_is_paused_it_leaves_nothing_once_that_goes_on(
        self, bench: Bench, seconds: str
    ) -> None:
        no_fake(bench)
        task_id = bench.start(SLEEPER)
        with opened(bench, task_id, "sleep", seconds):
            wait_for(lambda: marked(seconds), "the command")
            bench.runtime.pause(task_id)
        bench.runtime.resume(task_id)
        wait_for(lambda: not marked(seconds), "its end")


class TestLoad:
    def test_it_tells_what_runs_and_what_it_takes(self, bench: Bench, seconds: str) -> None:
        no_fake(bench)
        task_id = bench.start(shell(f"sleep {seconds} & while :; do :; done"))
        wait_for(lambda: len(marked(seconds)) >= 2, "its processes")
        load = wait_for(lambda: found if (found := bench.runtime.terminals.load(task_id)).cpu_percent > 5 else None)
        asleep = [each for each in load.processes if each.command == f"sleep {seconds}"]
        assert len(asleep) == 1
        assert load.processes[0] != asleep[0], "the busiest comes first"
        assert asleep[0].memory_bytes > 0
        assert 0 <= asleep[0].seconds < 300
        assert asleep[0].user
        assert load.memory_bytes > 0

    def test_what_people_run_in_it_is_seen_too(self, bench: Bench, seconds: str) -> None:
        no_fake(bench)
        task_id = bench.start(SLEEPER)
        with opened(bench, task_id, "sleep", seconds):
            wait_for(
                lambda: (
                    f"sleep {seconds}" in {each.command for each in bench.runtime.terminals.load(task_id).processes}
                ),
                "the command",
            )

    def test_what_does_not_run_has_none(self, bench: Bench) -> None:
        task_id = bench.start(SLEEPER)
        bench.runtime.stop(task_id, 0)
        for each in (task_id, *UNKNOWN):
            with pytest.raises(NotRunningError):
                bench.runtime.terminals.load(each)


class TestCrash:
    def test_what_a_killed_service_left_is_ended_by_the_next(self, bench: Bench, seconds: str, tmp_path: Path) -> None:
        no_fake(bench)
        task_id = bench.start(SLEEPER)
        engine = getattr(getattr(bench.runtime, "_engine", None), "url", "")
        doomed = subprocess.Popen(
            [sys.executable, "-c", _DOOMED, bench.kind, str(tmp_path), engine, task_id, seconds],
            env={**os.environ, "PYTHONPATH": f"{Path(__file__).parents[2] / 'support'}"},
        )
        wait_for(lambda: [pid for pid in marked(seconds) if pid != doomed.pid], "the command")
        doomed.kill()
        doomed.wait()
        bench.another().terminals.clean()
        wait_for(lambda: not marked(seconds), "its end")

    def test_terminals_of_this_service_stay(self, bench: Bench) -> None:
        task_id = bench.start(shell("sleep 100"))
        with opened(bench, task_id, "cat") as terminal:
            bench.runtime.terminals.clean()
            terminal.write(b"still here\n")
            read_until(terminal, b"still here\n")


_DOOMED = """
import sys, time
from pathlib import Path
from schedulearn.scheduler.runtimes.docker.runtime import DockerRuntime
from schedulearn.scheduler.runtimes.process.runtime import ProcessRuntime
kind, directory, url, task_id, seconds = sys.argv[1:]
if kind == "docker":
    from docker import APIClient
    cluster = APIClient(url).inspect_container(task_id)["Config"]["Labels"]["schedulearn.cluster"]
    runtime = DockerRuntime("here", url, Path(directory) / "data", cluster)
else:
    runtime = ProcessRuntime("here", Path(directory) / "data")
terminal = runtime.terminals.open(task_id, ["sleep", seconds], None)
time.sleep(100)
"""
