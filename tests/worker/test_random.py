"""Random numbers of a loader's processes: augmentations, say."""

import json
from pathlib import Path

import pytest
from environments import Python


@pytest.mark.horovod
def test_no_sample_of_any_worker_is_augmented_as_another(horovod_env: Path, tmp_path: Path) -> None:
    """Neither those of another worker or epoch, nor those from before the batch changed in an epoch."""
    python = Python(horovod_env, tmp_path)
    output = python.run("torchrun", 2, str(Path(__file__).parent / "script_random.py"), **python.job)
    drawn = [json.loads(line[line.index('{"drawn"') :])["drawn"] for line in output.splitlines() if '{"drawn"' in line]
    assert [len(each) for each in drawn] == [48, 48]
    assert len({*drawn[0], *drawn[1]}) == 96
