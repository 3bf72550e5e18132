"""doctor: finds what is wrong without changing anything, and mends it when told to."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from builders import task_spec
from clusters import FakeCluster, spec, wait_for
from fakes.runtime import FakeRuntime
from providers import SECRET, forging_provider, settings_for
from services import invoke, run

from schedulearn.api.settings import load_settings
from schedulearn.features.admin.doctor import Doctor, sign_in_findings
from schedulearn.scheduler.cluster import lock_data_folder
from schedulearn.scheduler.errors import StoreError
from schedulearn.scheduler.store import db as store
from schedulearn.scheduler.store.db import BASELINE, Database, sqlite_url


def sql(folder: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / "schedulearn.db")) as connection, connection:
        return list(connection.execute(statement))


@pytest.fixture
def used(tmp_path: Path) -> tuple[Path, FakeRuntime]:
    """The folder of a service that has stopped, and its engine."""
    with FakeCluster(tmp_path) as c:
        [job] = c.submit(spec())
        c.wait(job, "running")
        c.runtime.finish(c.task(job))
        c.wait(job, "succeeded")
        wait_for(lambda: c.runtime.tasks() == [])
    return tmp_path, c.runtime


def test_a_folder_in_order_has_no_findings(used: tuple[Path, FakeRuntime]) -> None:
    folder, engine = used
    with Doctor(folder, lambda host, cluster: engine) as doctor:
        assert doctor.find() == []


def test_each_fault_is_found_stays_without_mend_and_goes_with_it(used: tuple[Path, FakeRuntime]) -> None:
    folder, engine = used
    sql(folder, "INSERT INTO lease SELECT 'GPU-0', 7, id, 0 FROM task")
    sql(folder, "INSERT INTO lease VALUES ('GPU-1', 7, 'no-such-task', 0)")
    sql(folder, "UPDATE task SET state = 'running'")
    sql(folder, "INSERT INTO event (at, kind, code, message, data) VALUES (0, 'x', '', '', '{}')")
    engine.start(task_spec("stranger"))
    (folder / "schedulearn.db").chmod(0o644)
    with Doctor(folder, lambda host, cluster: engine) as doctor:
        found = doctor.find()
        assert {finding.check for finding in found} == {"permissions", "leases", "rows", "orphans", "volumes"}
        assert [f.check for f in doctor.find()] == [f.check for f in found], "looking changes nothing"
        assert engine.tasks()
        assert set(doctor.mend(found).values()) == {""}
        # A task that has ended by the mending gives its lease back in the next look.
        doctor.mend(doctor.find())
        assert doctor.find() == []
    assert engine.tasks() == []
    assert "stranger" not in engine.checkpoints.jobs()
    assert sql(folder, "SELECT * FROM lease") == []
    assert (folder / "schedulearn.db").stat().st_mode & 0o077 == 0


def test_nothing_is_mended_while_a_service_runs(used: tuple[Path, FakeRuntime]) -> None:
    folder, engine = used
    with (
        lock_data_folder(folder),
        Doctor(folder, lambda host, cluster: engine) as doctor,
        pytest.raises(StoreError, match="another Schedulearn"),
    ):
        doctor.mend(doctor.find())


def test_an_old_schema_is_found_and_brought_up_to_date(tmp_path: Path) -> None:
    engine = store._engine(sqlite_url(tmp_path))
    store.upgrade(engine, BASELINE)
    engine.dispose()
    with Doctor(tmp_path) as doctor:
        [finding] = [each for each in doctor.find() if each.check == "schema"]
        assert BASELINE in finding.what
        assert doctor.mend([finding]) == {finding: ""}
        assert [each.check for each in doctor.find()] == []


def test_a_schema_from_before_0_1_0_is_found_with_what_to_do(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "schedulearn.db")) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num)")
        connection.execute("INSERT INTO alembic_version VALUES ('0050')")
        connection.commit()
    with Doctor(tmp_path) as doctor:
        [finding] = [each for each in doctor.find() if each.check == "schema"]
    assert finding.mend is None
    assert "Start Schedulearn 0.1.0" in finding.advice


@pytest.mark.process
def test_the_command_says_what_it_finds_and_ends_with_1_until_it_is_mended(tmp_path: Path) -> None:
    Database(sqlite_url(tmp_path)).close()
    data = ("--data", str(tmp_path))
    assert "Nothing is wrong." in run("doctor", *data).out
    (tmp_path / "schedulearn.db").chmod(0o644)
    said = run("doctor", "--json", *data, code=1).out
    assert [(f["check"], f["mendable"], f["mended"]) for f in json.loads(said)["findings"]] == [
        ("permissions", True, False)
    ]
    assert "Fixed." in run("doctor", "--mend", *data).out
    assert "Nothing is wrong." in run("doctor", *data).out
    assert "there is no schedulearn.db" in run("doctor", "--data", str(tmp_path / "none"), code=1).err


def test_a_provider_that_lets_nobody_in_is_found(tmp_path: Path) -> None:
    with forging_provider() as forger:
        settings = load_settings(**settings_for(forger.issuer))
        assert list(sign_in_findings(settings)) == []
        assert list(sign_in_findings(load_settings())) == []
        lost = load_settings(
            **settings_for(forger.issuer, oidc_client_secret="", oidc_client_secret_file=str(tmp_path / "none"))
        )
        assert [found.what for found in sign_in_findings(lost)] == [
            "the file with the client secret can't be read: the operator must check oidc_client_secret_file"
        ]
        forger.published = []
        assert "has no key" in next(sign_in_findings(settings)).what
        for wrong, said in (
            ({"issuer": "https://evil.test"}, "says it is 'https://evil.test': set oidc_issuer to that"),
            ({"token_endpoint": None}, "has no valid token_endpoint"),
            ({"jwks_uri": "file:///etc/passwd"}, "has no valid jwks_uri"),
            ({"token_endpoint": "http://evil.test/"}, "has no valid token_endpoint"),
            ({"userinfo_endpoint": "ftp://x"}, "has no valid userinfo_endpoint"),
        ):
            forger.discovery = wrong
            assert said in next(sign_in_findings(settings)).what
    assert "does not answer" in next(sign_in_findings(settings)).what
    Database(sqlite_url(tmp_path)).close()
    config = tmp_path / "settings.yaml"
    config.write_text(yaml.safe_dump(settings_for(forger.issuer)))
    said = invoke("doctor", "--data", str(tmp_path), "--config", str(config), code=1).out
    assert "sign-in: the provider does not answer" in said
    assert SECRET not in said
