"""From a fault of a GPU to what its job, the GPU, its host and the user see. Each row is one of docs/gpu.md."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from clusters import FakeCluster, spec, wait_for
from gpu_probes.memory import FakeProbe
from matrices import each

from schedulearn.metrics.probe.readings import GpuHealth, Xid
from schedulearn.scheduler.core.outcomes import gpu_health
from schedulearn.scheduler.core.outcomes.xids import XIDS, XidVerdict, meaning_of
from schedulearn.scheduler.store import repository

DOCS = Path(__file__).parents[2] / "docs/gpu.md"
JOBS = {"stays": "goes on", "leaves": "starts elsewhere", "ends": "ends"}
"""What becomes of a job, and how its cell in docs/gpu.md begins."""


@dataclass(frozen=True)
class Row:
    fault: str
    """Words of the row in docs/gpu.md, or of an Xid its number."""
    job: str
    kind: str
    """Of the GPU's fault; `unwatched`: it has none; empty: it is in service."""
    says: str
    """What `hosts ls` says of the GPU."""
    fields: dict[str, Any]
    """What the probe reads of it."""


def of_xid(code: int, job: str, kind: str) -> Row:
    return Row(str(code), job, kind, f"Xid {code}" if kind else "", {"codes": (code, 45)})


ROWS = [
    *(of_xid(code, "leaves", "leave") for code in (48, 64, 74, 79, 95, 140, 143, 167, 171, 172)),
    *(of_xid(code, "stays", "reset") for code in (46, 62, 63, 109, 119, 120, 158, 5555)),
    *(of_xid(code, "ends", "") for code in (13, 31, 43, 45, 69, 94)),
    Row("fallen off the bus", "leaves", "leave", "fallen off the bus", {"lost": True}),
    Row("does not list it", "leaves", "leave", "not there any more", {"vanish": True}),
    Row("does not tell how many GPUs", "stays", "unwatched", "NVML can't be used", {"problem": "NVML can't be used"}),
    Row("does not come back", "stays", "state", "NVML does not answer", {"stuck": True, "processes": None}),
    Row("asks for a reset", "stays", "state", "asks for: GPU reset", {"health": GpuHealth("GPU reset")}),
    Row("uncorrected memory errors", "leaves", "leave", "uncorrected memory errors", {"ecc_errors": 3}),
]


@pytest.mark.slow
@each(ROWS, "row")
def test_each_fault_does_what_the_table_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: Row) -> None:
    for name in ("HINDERED_AFTER_S", "STUCK_AFTER_S"):
        monkeypatch.setattr(gpu_health, name, 0.05)
    probe = FakeProbe(3)
    uuid = probe.uuid(0)
    with FakeCluster(tmp_path / re.sub(r"\W", "", row.fault), probe=probe) as c:
        [job] = c.submit(spec())
        c.wait(job, "running")
        assert c.runtime.env(c.task(job))["NVIDIA_VISIBLE_DEVICES"] == uuid
        _break(probe, row.fields)
        if row.kind == "unwatched":
            wait_for(lambda: row.says in c.gpu(uuid).unwatched)
        elif row.kind:
            wait_for(lambda: row.says in c.gpu(uuid).fault and c.gpu(uuid).fault_kind == row.kind)
        if "codes" in row.fields:
            wait_for(lambda: len(_events(c, job, "gpu.xid")) == len(set(row.fields["codes"])))
        if row.kind != "unwatched":
            [other] = c.submit(spec())
            c.wait(other, "running")
            assert c.runtime.env(c.task(other))["NVIDIA_VISIBLE_DEVICES"] != uuid, "the host's other GPUs go on"
        _see_job(c, job, row)


def _break(probe: FakeProbe, fields: dict[str, Any]) -> None:
    fields = dict(fields)
    at = time.time()
    if codes := fields.pop("codes", ()):
        fields["xids"] = tuple(Xid(code, 1, at + place / 100) for place, code in enumerate(dict.fromkeys(codes)))
    probe.set(0, **{name: value for name, value in fields.items() if name not in ("vanish", "problem")})
    if "problem" in fields:
        probe.gpus, probe.problem = [], fields["problem"]
    if "vanish" in fields:
        probe.vanish(0)


def _see_job(c: FakeCluster, job: str, row: Row) -> None:
    if row.job == "leaves":
        wait_for(lambda: c.job(job).attempt == 2 and c.state(job) == "running")
        assert c.job(job).retries == 0, "what the user allowed is all there still"
        [moved] = [event.message for event in _events(c, job) if "It moves elsewhere" in event.message]
        assert row.says in moved
        return
    c.poke()
    assert (c.state(job), c.job(job).attempt) == ("running", 1)
    if row.job == "ends":
        c.runtime.finish(c.task(job), 1)
        assert c.wait(job, "failed").reason == "command_failed"


def _events(c: FakeCluster, job: str, kind: str = "") -> list[Any]:
    with c.cluster.db.read() as db:
        found = repository.list_events(db, job_id=job, limit=5000)
    return [event for event in found if kind in ("", event.kind)]


def test_the_table_in_the_docs_has_each_row() -> None:
    table = DOCS.read_text().split("## What follows from a fault")[1].split("\n## ")[0]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("| ")]
    wrong = []
    words = {"": "stays", "unwatched": "takes no job"}
    for row in ROWS:
        if not row.fault.isdigit():
            found = [cells for cells in lines if row.fault in cells[0]]
        elif int(row.fault) in XIDS:
            found = [cells for cells in lines if int(row.fault) in _numbers(cells[0])]
        else:
            found = [cells for cells in lines if "does not have" in cells[0]]
        gpu = words.get(row.kind, "out of service")
        if [JOBS[row.job] in cells[1] and gpu in cells[2] for cells in found] != [True]:
            wrong.append((row.fault, found))
    assert wrong == []


def test_each_xid_of_the_docs_has_its_verdict() -> None:
    table = DOCS.read_text().split("## What follows from a fault")[1].split("\n## ")[0]
    of_job = {"ends or": XidVerdict.PROGRAM, "ends by": XidVerdict.WATCH, "goes on": XidVerdict.RESET}
    seen = {}
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if cells and cells[0].startswith("Xid"):
            verdict = of_job.get(cells[1][:7], XidVerdict.LEAVE)
            seen |= dict.fromkeys(_numbers(cells[0]), verdict)
    assert {code: meaning_of(code).verdict for code in seen} == seen
    assert {code for code, row in XIDS.items() if row.verdict is XidVerdict.LEAVE} <= seen.keys()


def _numbers(text: str) -> set[int]:
    found = set()
    for first, last in re.findall(r"(\d+)(?: to (\d+))?", text):
        found |= set(range(int(first), int(last or first) + 1))
    return found
