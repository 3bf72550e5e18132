"""Docs that can be checked are checked: settings, keys, links, an own policy; and what may be committed."""

import inspect
import re
import subprocess
from pathlib import Path

import pytest
from builders import host, job, snapshot
from matrices import each

from schedulearn.api.settings import Settings, load_settings
from schedulearn.features.webhooks.spec import EVENTS
from schedulearn.scheduler.core.states import JobState
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.policies.plugins import load_policies
from schedulearn.scheduler.policies.registry import POLICIES, make_policy
from schedulearn.scheduler.specs.job import JobSpec

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "worker_images/README.md", ROOT / "ui/README.md"]


def rows(page: str) -> set[str]:
    """The names in backticks in the first column of a page's tables."""
    text = (ROOT / "docs" / page).read_text()
    return {name for line in re.findall(r"^\| (`.*?) \|", text, re.M) for name in re.findall(r"`(\w+)`", line)}


def test_every_setting_is_documented_and_no_other() -> None:
    assert rows("settings.md") == set(Settings.model_fields)


def test_every_key_of_a_job_is_documented() -> None:
    assert set(JobSpec.model_fields) <= rows("jobs.md")


def test_every_state_is_documented() -> None:
    text = (ROOT / "docs/jobs.md").read_text()
    assert all(f"`{state}`" in text for state in JobState)


def test_every_event_of_webhooks_is_documented() -> None:
    table = re.findall(r"^\| (`.*?) \|", (ROOT / "docs/webhooks.md").read_text(), re.M)
    assert re.findall(r"`([\w.]+)`", " ".join(table)) == list(EVENTS)


def test_every_policy_is_documented() -> None:
    text = (ROOT / "docs/policies.md").read_text()
    ours = [name for name, policy in POLICIES.items() if policy.__module__.startswith("schedulearn.")]
    assert len(ours) > 10
    assert [name for name in ours if f"`{name}`" not in text] == []


@each(PAGES, "page")
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def own_policy(tmp_path: Path) -> Path:
    text = (ROOT / "docs/policies.md").read_text()
    [code] = re.findall(r"```python\n(# shortest\.py\n.*?)```", text, re.S)
    assert len(code.splitlines()) <= 34
    file = tmp_path / "shortest.py"
    file.write_text(code)
    return file


def test_the_policy_of_thirty_lines_works_as_printed(tmp_path: Path) -> None:
    assert load_policies([f"{own_policy(tmp_path)}:SmallestFirst"]) == ["smallest-first"]
    try:
        state = snapshot([job("big", at=1, gpus=4), job("small", at=2, gpus=1)], [host(gpus=4)])
        assert make_policy("smallest-first", largest=4).allocate(state).allocations == {"small": {"h1": 1}}
    finally:
        del POLICIES["smallest-first"]


def test_a_class_that_inherits_nothing_gets_the_defaults_and_keeps_what_it_says(tmp_path: Path) -> None:
    file = tmp_path / "plain.py"
    file.write_text("class Plain:\n    name = 'plain'\n    resizes = True\n    def allocate(self, snapshot): ...\n")
    load_policies([f"{file}:Plain", f"{own_policy(tmp_path)}:SmallestFirst"])
    try:
        plain, small = make_policy("plain"), make_policy("smallest-first", largest="4")
        assert (plain.resizes, plain.metrics, plain.scaling, plain.use_efficiency) == (True, ("default",), None, True)
        assert (small.resizes, small.largest, type(small).__name__) == (False, 4, "SmallestFirst")
        assert inspect.getdoc(POLICIES["plain"]) == "", "nothing is said of it that its author did not say"
        with pytest.raises(InvalidError, match="no metric 'speed'"):
            make_policy("plain", "speed")
    finally:
        del POLICIES["plain"], POLICIES["smallest-first"]


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        (None, "P", "existing file"),
        ("x = (", "P", "SyntaxError"),
        ("raise KeyError('k')", "P", "KeyError"),
        ("", "P", "AttributeError"),
        ("class P: pass", "P", "a `name` and a method"),
        ("import schedulearn.policy as s\nclass P(s.Policy): name = 'p'", "P", "a `name` and a method"),
        ("class P:\n name = 'fifo'\n def allocate(self, s): ...", "P", "the name 'fifo' is already used"),
    ],
)
def test_an_own_policy_that_cannot_be_used_is_told_why(
    tmp_path: Path, content: str | None, name: str, words: str
) -> None:
    file = tmp_path / "own.py"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InvalidError, match=re.escape(words)):
        load_policies([f"{file}:{name}"])


def test_settings_come_from_file_environment_and_flags_in_that_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("port: 1\ninterval: 5\nsimulate_gpus: 2\n")
    monkeypatch.setenv("SCHEDULEARN_INTERVAL", "6")
    monkeypatch.setenv("SCHEDULEARN_SIMULATE_GPUS", "3")
    found = load_settings(file, simulate_gpus=4, host=None)
    assert (found.port, found.interval, found.simulate_gpus) == (1, 6.0, 4)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("prot: 1", ["'prot'", "there is no such key; did you mean 'port'?"]),
        ("hosts: [{address: tcp://h:1, nmae: h}]", ["'hosts.0.nmae'", "did you mean 'name'?"]),
        ("port: x", ["'port'", "must be a whole number"]),
        ("1: 2", ["'1'", "there is no such key"]),
        ("- a", ["must contain keys"]),
        ("a: [", ["can't be read"]),
        (b"port: \xff", ["can't be read"]),
        (None, ["can't be read", "No such file"]),
    ],
)
def test_a_wrong_settings_file_is_told_apart(tmp_path: Path, content: str | bytes | None, words: list[str]) -> None:
    file = tmp_path / "s.yaml"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidError) as refused:
        load_settings(file)
    assert [each for each in [f"settings file {file}", *words] if each not in str(refused.value)] == []


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("PORT", "many", "'port' (environment variable SCHEDULEARN_PORT): must be a whole number"),
        ("HOSTS", "far", "'hosts' (environment variable SCHEDULEARN_HOSTS): lists and maps must be JSON"),
        ("LOG_ROOM", "-1", "'log_room' (environment variable SCHEDULEARN_LOG_ROOM)"),
    ],
)
def test_a_wrong_variable_is_told_by_its_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    monkeypatch.setenv(f"SCHEDULEARN_{name}", value)
    with pytest.raises(InvalidError, match=re.escape(words)):
        load_settings()


def test_a_wrong_flag_is_told_though_the_file_is_right(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("simulate_gpus: 2")
    with pytest.raises(InvalidError, match=r"'simulate_gpus' \(flag --simulate-gpus\)"):
        load_settings(file, simulate_gpus=-1)


def test_a_map_of_the_environment_replaces_that_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("data_sets: {wiki: /srv/wiki}\nlog_room: 2g\n")
    monkeypatch.setenv("SCHEDULEARN_DATA_SETS", '{"books": "/srv/books"}')
    found = load_settings(file)
    assert (found.data_sets, found.log_room) == ({"books": "/srv/books"}, 2 << 30)


def test_lock_files_name_no_download_addresses() -> None:
    for lock in [*ROOT.glob("requirements/*.txt"), ROOT / "ui/package-lock.json"]:
        text = lock.read_text()
        assert '"resolved"' not in text, lock
        assert not re.search(
            r"--(extra-)?index-url|--find-links|https?://(?!.*\"(url|homepage)\")[^\"]*\.(whl|tgz|tar\.gz)", text
        ), lock


def test_big_files_are_made_not_committed() -> None:
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    for name in filter(None, files):
        path = ROOT / name.decode()
        assert not path.is_file() or path.stat().st_size < 600_000, f"{path} is large"
