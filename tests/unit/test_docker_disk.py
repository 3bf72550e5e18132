"""How an engine's answer is read, of old and of new versions of its API."""

import pytest

from schedulearn.scheduler.runtimes.contract import Stored, StoredImage
from schedulearn.scheduler.runtimes.docker.disk import read_disk

IMAGES = [
    {"RepoTags": ["a:1", "a:2"], "Size": 900, "SharedSize": 300},
    {"RepoTags": ["child:1"], "Size": 300, "SharedSize": 300},
    {"RepoTags": ["plain:1"], "Size": 5, "SharedSize": -1},
    {"RepoTags": ["<none>:<none>"], "Size": 7, "SharedSize": 0},
    {"RepoTags": None, "Size": 7},
]
VOLUMES = [
    {"Labels": {"us": "c", "schedulearn.checkpoints": "j"}, "UsageData": {"Size": 12}},
    {"Labels": {"us": "others", "schedulearn.checkpoints": "k"}, "UsageData": {"Size": 12}},
    {"Labels": None},
]


@pytest.mark.parametrize(
    "answer",
    [
        {"LayersSize": 1000, "Images": IMAGES, "Volumes": VOLUMES},
        {"ImageUsage": {"TotalSize": 1000, "Items": IMAGES}, "VolumeUsage": {"Items": VOLUMES}},
    ],
)
def test_an_image_has_its_size_whatever_it_shares(answer: dict[str, object]) -> None:
    disk = read_disk(answer, "us", "c")
    assert disk.images == (
        StoredImage("a:1", 900, 600),
        StoredImage("a:2", 900, 600),
        StoredImage("child:1", 300, 0),
        StoredImage("plain:1", 5, 5),
    )
    assert disk.images_bytes == 1000
    assert disk.checkpoints == (Stored("j", 12),)
    assert read_disk({}, "us", "c").images == ()
