"""Each table of the predecessors' experiments in its smallest form: the real service, real training of some steps.

That a figure is good is for the bench to say: here it has to be there, and to be about what really ran.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.seeds import config_manager, fifo_rr, seeds, spark, speedup, thesis
from bench.seeds.cluster import lab
from clusters import wait_for

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("horovod_env")]


def test_fifo_against_round_robin(capsys: pytest.CaptureFixture[str]) -> None:
    one = fifo_rr.Round("device", "pytorch", 1)
    found = fifo_rr.main([one], scale=0.01, epochs=1)
    assert [policy for _, policy in found] == ["fifo", "round-robin", "goodput"]
    for figures in found.values():
        assert 0 < figures.turnaround <= figures.makespan
        assert 0 < figures.held <= 1
        assert figures.busy is not None
        assert figures.busy * figures.makespan * 6 == pytest.approx(fifo_rr.DEVICE_S * 0.01 / fifo_rr.EPOCHS)
    printed = capsys.readouterr().out
    assert "makespan of goodput over the better of both" in printed
    assert "-21, -10, -23 %" in printed


def test_static_against_dynamic_allocation(capsys: pytest.CaptureFixture[str]) -> None:
    modes = ("static", "in place")
    found = config_manager.main(columns=("processor",), modes=modes, epochs=2, others=(1,))
    for mode in modes:
        played = found["processor", mode]
        assert [each.number for each in played.epochs] == [*range(1, 2 * config_manager.PROCESSOR_FACTOR + 1)]
        assert all(each.began < each.ended for each in played.epochs)
        assert len(played.others) == 1
    assert {each.workers for each in found["processor", "static"].epochs} == {1}
    assert "in place: total time over static" in capsys.readouterr().out


def test_the_jobs_of_the_thesis(capsys: pytest.CaptureFixture[str]) -> None:
    [figures] = thesis.main(metrics=("cost",), repeats=1, scale=0.1, jobs=1, samples=128)["cost"]
    assert 0 <= figures.accuracy <= 100
    assert figures.makespan <= figures.node_seconds <= 2 * figures.makespan
    assert (figures.between is None) == (figures.node_seconds == figures.makespan)
    assert "second host after" in capsys.readouterr().out


def test_speedup(capsys: pytest.CaptureFixture[str]) -> None:
    found = speedup.main(["pytorch"], workers=(1, 2), columns=("processor",), epochs=1)
    assert [count for *_, count in found] == [1, 2]
    assert all(0 < figures.epochs < figures.whole for figures in found.values())
    assert "157 s" in capsys.readouterr().out


def test_batch_and_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    strategies = ("one worker", "torchrun")
    found = spark.main(
        batches=(128, 256), strategies=strategies, repeats=1, epochs=1, long_epochs=1, followed=("torchrun",)
    )
    assert [*found] == [(batch, each) for batch in (128, 256) for each in strategies]
    assert all(value > 0 for values in found.values() for value in values)
    printed = capsys.readouterr().out
    assert "log2(batch)" in printed
    assert "torchrun: what its processes took" in printed


def test_ctrl_c_leaves_no_job_behind(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    folders: list[Path] = []

    def interrupted(**options: object) -> None:
        with lab(["pytorch"], (1,)) as where:
            folders.append(where.folder)
            job = where.submit("pytorch", "--epochs 100000")
            wait_for(lambda: "epoch 1 " in where.log(job), seconds=300, what="the first epoch", pause=0.2)
            assert _processes_of(where.folder)
            raise KeyboardInterrupt

    monkeypatch.setattr(spark, "main", interrupted)
    assert not seeds.main(["spark"])
    assert not _processes_of(folders[0])
    assert "its jobs were ended" in capsys.readouterr().out


def _processes_of(folder: Path) -> list[str]:
    """All that have to do with the folder, by their environment."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if str(folder).encode() in (process / "environ").read_bytes():
                    found.append(process.name)
            except OSError:
                continue  # it has ended meanwhile
    return found
