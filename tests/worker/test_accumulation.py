"""Steps of several passes: for a script's code they are steps of one pass (docs/adapt-your-script.md)."""

import json
from pathlib import Path

import pytest
from environments import Python

SCRIPT = str(Path(__file__).parent / "script_accumulation.py")


@pytest.mark.horovod
@pytest.mark.parametrize(
    ("kind", "workers", "max_local", "passes", "as_a_job"),
    [
        ("alone", 1, 32, 2, True),
        ("alone", 1, 13, 5, False),
        ("torchrun", 2, 7, 5, True),
        ("horovod", 2, 7, 5, True),
    ],
)
def test_steps_of_several_passes_are_steps_of_one(
    horovod_env: Path, tmp_path: Path, kind: str, workers: int, max_local: int, passes: int, as_a_job: bool
) -> None:
    python = Python(horovod_env, tmp_path)
    output = python.run(kind, workers, SCRIPT, kind, str(max_local), **(python.job if as_a_job else {}))
    found = [json.loads(line[line.index('{"case"') :]) for line in output.splitlines() if '{"case"' in line]
    assert len(found) >= 12
    assert {(each["steps"], each["passes"]) for each in found} == {(12, passes)}
    assert {each["case"]: each["apart"] for each in found if not each["apart"] < 1e-5} == {}
