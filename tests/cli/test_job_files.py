"""Jobs as YAML and JSON files: what is read, what is refused, and what is written for people to edit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from services import IMAGE, Service

from schedulearn.api.cli.job_files.reading import LARGEST_YAML, read_jobs, read_yaml
from schedulearn.api.cli.job_files.writing import as_yaml

JOB = f"""\
# A comment.
name: night run
type: Pytorch
container_image: {IMAGE}
command: sh -c 'echo "$GREETING"'
required_gpus: 1
launcher: none
env:
  GREETING: no
  N: 010
labels: {{sweep: lr}}
"""


def test_yaml_says_what_it_seems_to_say() -> None:
    """As YAML 1.2: `no` is no `false`, a date is text, `010` is not eight."""
    text = "a: no\nb: 010\nc: 2030-01-02\nd: 1:30\ne: 1e3\nf: true\ng:\nh: -1.5\ni: '7'\n1: x\nj: [1, 2k]\n"
    assert read_yaml(text) == {
        "a": "no", "b": "010", "c": "2030-01-02", "d": "1:30", "e": 1000.0, "f": True, "g": None, "h": -1.5, "i": "7",
        "1": "x", "j": [1, "2k"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        ("{", "a.yaml", "it is not JSON"),
        ("a: 1", "a.json", "it is not JSON"),
        ("a: [", "a.yaml", "line 1"),
        ("a: 1\na: 2", "-", "the key 'a' is there twice in .* line 2"),
        ("a: &x [1]\nb: *x", "-", "aliases"),
        ("a: !!python/object/apply:os.system [true]", "-", "could not determine a constructor"),
        ("[x]: 1", "-", "must hold one job|a key is text|not JSON"),
        ("? {a: 1}\n: 2", "-", "a key is text"),
        ("a: 1\n---\nb: 2", "-", "single document"),
        ("- " * 5000 + "x", "-", "recursion"),
        ("x: " + "y" * LARGEST_YAML, "-", "at most 1 MiB"),
        ("just words", "-", "must hold one job"),
        ("", "-", "must hold one job"),
        ("[1]", "-", "an object"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_no_job_is_refused_with_the_reason(text: str, name: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_jobs(text, name)


KEYS = st.text(st.characters(codec="ascii", categories=["L"]), min_size=1)
VALUES: Any = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(st.dictionaries(KEYS, VALUES | st.dictionaries(st.text(), VALUES) | st.lists(VALUES, max_size=3), min_size=1))
def test_what_is_written_reads_back_as_it_was(job: dict[str, Any]) -> None:
    assert read_yaml(as_yaml(job)) == job


def test_what_is_written_is_for_people_and_for_any_reader_of_yaml() -> None:
    job = {"name": "night run", "command": "python train.py --lr 0.1", "env": {"A": "no", "B": "3"}, "labels": {}}
    text = as_yaml(job)
    assert text == 'name: night run\ncommand: python train.py --lr 0.1\nenv:\n  A: "no"\n  B: "3"\nlabels: {}\n'
    assert yaml.safe_load(text) == job


def test_a_yaml_file_is_submitted_as_json_would_be(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    assert service.invoke("submit", str(file)).out == "no\n"
    done = service.invoke("submit", "-", "--env", "GREETING=hi", "--json", stdin=JOB).json
    assert (done["state"], done["name"], done["labels"]) == ("succeeded", "night run", {"sweep": "lr"})
    two = service.invoke("submit", "-", stdin="".join(f"- {{name: n{i}, {FLOW}}}\n" for i in (1, 2))).out.split()
    assert [service.job(job_id)["name"] for job_id in two] == ["n1", "n2"]
    service.invoke("wait", *two)


FLOW = f"type: t, container_image: {IMAGE}, command: 'true', required_gpus: 1, launcher: none"


def test_an_unknown_key_of_yaml_is_told_with_the_one_that_was_meant(service: Service) -> None:
    refused = service.invoke("submit", "-", stdin=JOB + "prioritty: 3\n", code=1)
    assert refused.err == "Error: prioritty: there is no such key; did you mean 'priority'?\n"


def test_a_deadline_that_has_passed_is_told_at_submission(service: Service) -> None:
    told = service.invoke("submit", "-d", "-", stdin=JOB + "deadline: 2020-01-02\n")
    service.invoke("wait", told.out.strip())
    assert len(told.out.split()) == 1, "the id stays alone on stdout"
    assert "Its deadline (2020-01-02T00:00:00.000Z) had passed when it was submitted." in told.err
    on_time = service.invoke("submit", "-d", "-", stdin=JOB)
    assert on_time.err == ""
    service.invoke("wait", on_time.out.strip())


def test_the_spec_of_a_job_is_a_file_that_makes_the_same_job(service: Service, tmp_path: Path) -> None:
    first = service.invoke("submit", "-", "-d", "--env", "EPOCHS=3", "--priority", "70", stdin=JOB).out.strip()
    spec = service.invoke("show", "--spec", first).out
    assert "priority: 70\n" in spec
    assert "max_gpus" not in spec, "only what differs from the defaults"
    again = service.invoke("submit", "-d", "-", "--env-from", first, stdin=spec).out.strip()
    keys = ("name", "command", "env", "labels", "priority", "required_gpus", "launcher", "family", "grace_period")
    service.invoke("wait", first, again)
    jobs = [service.job(each) for each in (first, again)]
    assert [jobs[0][key] for key in keys] == [jobs[1][key] for key in keys]
    assert service.wait(again, "succeeded")
    assert service.logs(again) == "no\n", "the hidden value went along"
    assert "GREETING is hidden" in service.invoke("submit", "-d", "-", stdin=spec, code=1).err
    assert "--env-from works for one job" in service.invoke("submit", "-", "--env-from", first, stdin="[]", code=2).err
