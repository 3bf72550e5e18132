from matrices import each

from schedulearn.api.cli.gpus import named, short_bus_id

BUS_IDS = [
    ("00000000:3B:00.0", "0000:3B:00.0"),
    ("00010000:01:00.0", "00010000:01:00.0"),
    ("0000:3b:00.0", "0000:3b:00.0"),
    ("", ""),
]


@each(BUS_IDS, "told", "shown")
def test_bus_ids_are_as_lspci_writes_them(told: str, shown: str) -> None:
    assert short_bus_id(told) == shown


def test_a_gpu_is_named_by_index_and_bus_id() -> None:
    assert named({"index": 3, "pci": "00000000:3B:00.0"}) == "GPU 3 (0000:3B:00.0)"
    assert named({"index": 3, "pci": ""}) == "GPU 3"
