"""`schedulearn experiment`, as users run it."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from services import IMAGE, Service

YAML = f"""
name: naps
job:
  container_image: {IMAGE}
  launcher: none
  command: sleep {{seconds}}
  required_gpus: 1
factors:
  seconds: [0.05, 0.6]
replications: 2
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("experiments") / "data") as served:
        yield served


@pytest.fixture(scope="module")
def measured(service: Service, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The id of an experiment that was run to its end, with the service killed in the middle."""
    file = tmp_path_factory.mktemp("file") / "naps.yaml"
    file.write_text(YAML)
    started = service.invoke("experiment", str(file)).out
    service.kill()
    service.start()
    assert service.invoke("experiment", "wait", "last").out.endswith("completed: Of 4 runs 4 succeeded.\n")
    return started.split()[0]


def test_it_is_listed_and_shown_with_progress(service: Service, measured: str) -> None:
    assert "factorial" in service.invoke("experiment", "ls").out
    lines = service.invoke("experiment", "show", measured).out.splitlines()
    assert lines[1] == "4 of 4 runs have ended, 0 wait or run."
    assert lines[2].split()[:3] == ["RUN", "seconds", "JOB"]


def test_its_table_is_csv(service: Service, measured: str) -> None:
    rows = list(csv.DictReader(io.StringIO(service.invoke("experiment", "csv", measured).out)))
    assert sorted(row["seconds"] for row in rows) == ["0.05", "0.05", "0.6", "0.6"]
    assert all(float(row["run_time"]) >= float(row["seconds"]) for row in rows)


def test_its_analysis_names_the_factor(service: Service, measured: str) -> None:
    shown = service.invoke("experiment", "analyze", measured).out
    assert "MEAN run_time" in shown
    found = service.invoke("experiment", "analyze", measured, "--json").json
    [term] = found["terms"]
    assert (term["factors"], term["df"]) == (["seconds"], 1)
    assert term["effect"] > 0.1, "half of what the two levels differ by"


def test_its_plots_are_files(service: Service, measured: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    files = service.run("experiment", "plot", measured, "-o", str(tmp_path / "plots")).out.split()
    assert [Path(file).name for file in files] == ["run_time-main-effects.svg", "run_time-boxes.svg"]
    assert all("</svg>" in Path(file).read_text() for file in files)


def test_what_is_wrong_is_told(service: Service) -> None:
    assert "no run of" in service.invoke("experiment", "plot", "last", "--response", "beauty", code=1).err
    assert "one object" in service.invoke("experiment", "-", stdin="- 1", code=2).err
    assert "there is no sweep" in service.invoke("experiment", "show", "0000000000", code=1).err
