"""submit, and following what was submitted."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from clusters import wait_for
from services import IMAGE, Service
from terminals import without_escapes

from schedulearn.api.cli.submit import submit
from schedulearn.api.cli.times import parse_instant, parse_past
from schedulearn.scheduler.specs.job import JobSpec

FLAGS = ("submit", "--image", IMAGE, "--launcher", "none")


def stored_env(service: Service, job_id: str) -> Any:
    """A job's variables with their values, which no answer shows."""
    return json.loads(service.rows("SELECT spec FROM job WHERE id = ?", job_id)[0][0])["env"]


@pytest.mark.parametrize("code", [0, 3, 255])
def test_submit_prints_the_log_and_ends_with_the_exit_code_of_the_job(service: Service, code: int) -> None:
    done = service.run(*FLAGS, "--", "sh", "-c", f"echo 'one  two'; exit {code}", code=code)
    assert done.out == "one  two\n"
    assert "is queued" in done.err
    end = r"succeeded" if code == 0 else rf"failed after \d+s: The command ended with exit code {code}: one  two"
    assert re.search(end, done.err)


def test_a_job_that_a_signal_killed_ends_submit_as_a_shell_would_tell_it(service: Service) -> None:
    service.invoke(*FLAGS, "--", "sh", "-c", "kill -9 $$", code=137)


def test_a_time_limit_ends_submit_with_124(service: Service) -> None:
    service.invoke(*FLAGS, "--max-duration", "0.2s", "--", "sleep", "60", code=124)


def test_detached_it_prints_only_the_id_in_a_pipe(service: Service) -> None:
    job_id = service.invoke(*FLAGS, "-d", "--", "true").out.strip()
    assert service.wait(job_id, "succeeded")["name"] == "true"


def test_flags_reach_the_job(service: Service) -> None:
    flags = [
        *("--name", "n", "--type", "Tensorflow", "--gpus", "2", "--elastic", "--min-gpus", "1", "--max-gpus", "3"),
        *("--priority", "70", "--max-duration", "2h", "--max-restarts", "4", "--env", "A=1=2", "--env", "PATH"),
        *("--cpus", "1.5", "--memory", "4g"),
        *("--resize", "restart", "--batch-size", "64", "--max-batch-size", "128", "--epochs", "5"),
        *("--family", "digits", "--weight", "2.5", "--deadline", "2030-01-02T03:04:05+00:00", "--grace-period", "1m"),
        *("--shm-size", "2g", "--label", "team=vision", "--user", "ada"),
    ]
    job = service.invoke(*FLAGS, "-d", "--json", *flags, "--command", "sh -c 'echo \"$A\"'").json
    expected = {
        "name": "n", "type": "Tensorflow", "required_gpus": 2, "elastic": True, "min_gpus": 1, "max_gpus": 3,
        "priority": 70, "max_duration": 7200.0, "max_restarts": 4,
        "shm_size": 2 << 30, "labels": {"team": "vision"}, "user": "ada", "cpus": 1.5, "memory": 4 << 30,
        "command": "sh -c 'echo \"$A\"'", "resize": "restart", "batch_size": 64, "max_batch_size": 128, "epochs": 5,
        "weight": 2.5, "deadline": "2030-01-02T03:04:05.000Z", "grace_period": 60.0, "family": "digits",
    }  # fmt: skip
    assert {key: job[key] for key in expected} == expected
    assert stored_env(service, job["id"]) == {"A": "1=2", "PATH": os.environ["PATH"]}
    service.wait(job["id"], "succeeded")


def test_every_key_of_a_job_has_a_flag() -> None:
    flags = {option.name for option in submit.params} - {"file", "detach"}
    by_command_line = {"type_": "type"}
    assert {by_command_line.get(name or "", name) for name in flags} >= set(JobSpec.model_fields)


@pytest.mark.parametrize(("given", "seconds"), [("2h", 7200), ("90", 90)])
def test_a_deadline_may_be_a_length_of_time_from_now(given: str, seconds: int) -> None:
    left = datetime.fromisoformat(parse_instant(given)) - datetime.now(UTC)
    assert left.total_seconds() == pytest.approx(seconds, abs=5)


@pytest.mark.parametrize("given", ["tomorrow", "", "9" * 400, "2026-13-01"])
def test_what_is_no_time_is_refused_with_what_would_be_one(given: str) -> None:
    with pytest.raises(ValueError, match="is not a time: write"):
        parse_instant(given)


@pytest.mark.parametrize(
    ("given", "instant"),
    [
        ("2026-11-24", datetime(2026, 11, 24).astimezone()),
        ("2026-11-24T08:30", datetime(2026, 11, 24, 8, 30).astimezone()),
        ("2026-11-24T08:30Z", datetime(2026, 11, 24, 8, 30, tzinfo=UTC)),
    ],
)
def test_a_time_in_the_past_is_a_date(given: str, instant: datetime) -> None:
    assert datetime.fromisoformat(parse_past(given)) == instant


def test_a_time_in_the_past_is_today_or_a_length_of_time() -> None:
    now = datetime.now().astimezone()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    assert datetime.fromisoformat(parse_past("today")) in (midnight, midnight + timedelta(days=1))
    assert timedelta() <= datetime.fromisoformat(parse_past("2d")) - (now - timedelta(days=2)) < timedelta(minutes=1)


@pytest.mark.parametrize("given", ["yesterday", "", "9" * 400, "2026-13-01"])
def test_what_is_no_past_time_is_refused_with_what_would_be_one(given: str) -> None:
    with pytest.raises(ValueError, match="is not a time: write"):
        parse_past(given)


def test_words_after_the_dashes_stay_the_words_that_they_are(service: Service) -> None:
    done = service.invoke(*FLAGS, "--", "printf", "[%s]", "a b", "--gpus", "it's", "$HOME")
    assert done.out == "[a b][--gpus][it's][$HOME]"


def test_the_name_is_that_of_the_script(service: Service) -> None:
    assert service.invoke(*FLAGS, "-d", "--json", "--", "sh", "-c", "true", "a/train.py").json["name"] == "train.py"


def test_a_file_is_one_job_and_flags_go_before_it(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    five = {"name": "f", "type": "t", "container_image": IMAGE, "command": "true", "required_gpus": 1}
    file.write_text(json.dumps({**five, "launcher": "none", "env": {"A": 1, "B": 2}, "weight": 2.5}))
    job = service.invoke("submit", str(file), "--priority", "7", "--env", "A=3", "--json").json
    assert (job["state"], job["priority"], job["weight"]) == ("succeeded", 7, 2.5)
    assert stored_env(service, job["id"]) == {"A": "3", "B": "2"}


def test_a_command_is_enough(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """What --help calls a default is one."""
    job = service.invoke("submit", "-d", "--json", "--", "python", "train.py").json
    expected = {"name": "train.py", "type": "Pytorch", "required_gpus": 1, "priority": 50, "launcher": "horovod"}
    assert {key: job[key] for key in expected} == expected
    assert job["container_image"] == service.call("GET", "/api/v1/code")["default_image"]
    asked = service.invoke("submit", "-d", "--json", "--gpus", "2", "--name", "n", "--command", "true").json
    assert (asked["name"], asked["required_gpus"]) == ("n", 2)
    file = "command: python train.py\ncontainer_image: plain\n"
    assert service.invoke("submit", "-d", "--json", "-", stdin=file).json["name"] == "train.py"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--gpus", "-3"], "Error: --gpus: "),
        (["--priority", "101", "--env", "1=2"], "--priority: "),
        (["--priority", "101", "--env", "1=2"], "--env: invalid name '1' of an environment variable"),
        (["--mount", "nothing"], "--mount: "),
        (["--deadline", "2020-01-01", "--refuse-late"], "--deadline: "),
        (["--type", "x" * 1000], "--type: "),
    ],
)
def test_a_refusal_names_the_flag(service: Service, arguments: list[str], says: str) -> None:
    assert says in service.invoke(*FLAGS, *arguments, "--", "true", code=1).err


def test_a_refusal_names_the_key_where_a_file_gave_it(service: Service) -> None:
    file = f"command: 'true'\ncontainer_image: {IMAGE}\nrequired_gpus: -1\n"
    told = service.invoke("submit", "--priority", "101", "-", stdin=file, code=1).err
    assert "required_gpus: must be" in told
    assert "--priority: must be" in told
    assert "container_image: is missing" in service.invoke("submit", "-", stdin="command: x", code=1).err


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("python train.py --lr 1", "train.py"),
        ("sh -c 'cd . && python nets/train.py'", "nets/train.py"),
        ("python -m nets.train", "nets/train.py"),
        ("torchrun --config=conf.yaml main", "conf.yaml"),
        ('python other.py /etc/hostname nets \0 "', ""),
        ("x" * 10_000, ""),
    ],
)
def test_a_file_that_is_only_here_hints_at_run(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, file: str
) -> None:
    (tmp_path / "nets").mkdir()
    for name in ("train.py", "nets/train.py", "conf.yaml"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    jobs = json.dumps({"name": "n", "type": "t", "container_image": IMAGE, "command": command, "required_gpus": -1})
    told = service.invoke("submit", "-", stdin=jobs, code=1).err
    assert (f"{file} is in this folder, and `submit` sends no files" in told) == bool(file)
    assert ("schedulearn run" in told) == bool(file)
    with_code = json.dumps({**json.loads(jobs), "code": {"digest": "sha256:" + "a" * 64}})
    assert "schedulearn run" not in service.invoke("submit", "-", stdin=with_code, code=1).err


def test_stdin_may_hold_a_list_which_is_stored_as_one(service: Service) -> None:
    jobs = [
        {
            "name": f"n{i}",
            "type": "t",
            "container_image": IMAGE,
            "command": "true",
            "required_gpus": 1,
            "launcher": "none",
        }
        for i in range(3)
    ]
    ids = service.invoke("submit", "-", stdin=json.dumps(jobs)).out.split()
    assert [service.job(job_id)["name"] for job_id in ids] == ["n0", "n1", "n2"]
    jobs[1]["required_gpus"] = -1
    assert "1.required_gpus" in service.invoke("submit", "-", stdin=json.dumps(jobs), code=1).err


@pytest.mark.parametrize(
    ("arguments", "stdin", "says"),
    [
        (["submit"], "", "YAML or JSON file, or a command"),
        (["submit", "--gpus", "2"], "", "YAML or JSON file, or a command"),
        (["submit", "python", "train.py"], "", "a command goes after `--`"),
        (["submit", "train.py"], "", "'train.py' is not a job file; a command goes after `--`"),
        (["submit", "/nonexistent.json"], "", "No such file"),
        (["submit", "-"], "{", "it is not JSON"),
        (["submit", "-"], "name: [", "neither JSON nor YAML"),
        (["submit", "-"], "[1]", "an object"),
        (["submit", "-"], "[" * 100_000, "it is not JSON"),
        ([*FLAGS, "--command", "true", "--", "false"], "", "not both"),
        ([*FLAGS, "--env", "SURELY_NOT_SET", "--", "true"], "", "SURELY_NOT_SET is not set"),
        ([*FLAGS, "--label", "x", "--", "true"], "", "KEY=VALUE"),
        ([*FLAGS, "--max-duration", "soon", "--", "true"], "", "not a duration"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_how_it_is_done(
    service: Service, arguments: list[str], stdin: str, says: str
) -> None:
    assert says in service.invoke(*arguments, stdin=stdin, code=2).err


def test_what_the_service_refuses_is_named_and_ends_with_1(service: Service) -> None:
    refused = service.invoke("submit", "-", stdin='{"container_image": "x", "command": "true", "gpu": 1}', code=1)
    assert refused.err == "Error: gpu: there is no such key; did you mean 'required_gpus'?\n"
    assert "--gpus: " in service.invoke(*FLAGS, "--gpus", "-1", "--", "true", code=1).err


def test_ctrl_c_leaves_the_job_running_and_says_so(service: Service) -> None:
    with service.begin(*FLAGS, "--", "sh", "-c", "echo started; sleep 60") as following:
        assert following.stdout.readline() == "started\n"
        following.send_signal(signal.SIGINT)
        _, errors = following.communicate(timeout=10)
    assert following.returncode == 130
    job_id = service.invoke("ls", "--json").json["items"][0]["id"]
    assert f"schedulearn cancel {job_id}" in errors
    assert service.job(job_id)["state"] == "running"
    service.invoke("cancel", job_id)


def test_the_log_comes_while_the_job_runs(service: Service, tmp_path: Path) -> None:
    flag = tmp_path / "go"
    job_id = service.submit_shell(
        f"echo one; while [ ! -e {flag} ]; do sleep 0.02; done; printf 'tw\\303\\266'; exit 5"
    )
    with service.begin("logs", "-f", job_id) as following:
        assert following.stdout.readline() == "one\n"
        assert service.job(job_id)["state"] == "running"
        flag.touch()
        rest, errors = following.communicate(timeout=15)
    assert (rest, following.returncode) == ("twö", 5)
    assert f"{job_id} failed" in errors


def test_a_cancelled_job_ends_those_who_follow_it_with_130(service: Service) -> None:
    job_id = service.submit_shell("echo up; sleep 60")
    with service.begin("logs", "-f", job_id) as following:
        following.stdout.readline()
        service.invoke("cancel", job_id)
        following.communicate(timeout=20)
    assert following.returncode == 130


def test_following_survives_a_restart_of_the_service_without_losing_or_doubling_a_line(
    start_service: Callable[..., Service], tmp_path: Path
) -> None:
    service, flag = start_service(), tmp_path / "go"
    job_id = service.submit_shell(
        f"for i in 1 2 3; do echo before $i; done; while [ ! -e {flag} ]; do sleep 0.02; done; echo after; exit 4"
    )
    with service.begin("logs", "-f", job_id) as following:
        assert [following.stdout.readline() for _ in range(3)] == ["before 1\n", "before 2\n", "before 3\n"]
        service.stop()
        service.start()
        flag.touch()
        rest, _ = following.communicate(timeout=30)
    assert (rest, following.returncode) == ("after\n", 4)


def test_a_job_that_waits_is_followed_until_it_may_run(service: Service) -> None:
    big = service.submit_shell("sleep 1000", required_gpus=4)
    service.wait(big, "running")
    why = "It waits for 1 GPU and comes first."  # what follows changes as time goes by
    with service.begin(*FLAGS, "--", "echo", "at last") as following:
        job_id = wait_for(lambda: service.invoke("ls", "--state", "queued", "--json").json["items"])[0]["id"]
        wait_for(lambda: service.job(job_id)["message"].startswith(why))
        assert any(f"is queued: {why}" in line for line in following.stderr)
        service.invoke("cancel", big)
        out, _ = following.communicate(timeout=30)
    assert (out, following.returncode) == ("at last\n", 0)


def test_logs_without_following_is_a_look_and_ends_with_0(service: Service) -> None:
    job_id = service.submit_shell("echo a; exit 9")
    service.wait(job_id, "failed")
    assert service.invoke("logs", job_id).out == "a\n"
    assert service.invoke("logs", job_id, "--json").json == {"offset": 2, "text": "a\n"}
    [piece] = [json.loads(line) for line in service.invoke("logs", "-f", "--json", job_id, code=9).out.splitlines()]
    [[start, second]] = piece.pop("times")
    assert piece == {"offset": 2, "text": "a\n", "attempt": 1, "rank": 0}
    assert start == 0
    assert second == pytest.approx(time.time(), abs=60)


def test_on_a_terminal_the_wait_is_shown_and_the_log_left_alone(service: Service) -> None:
    shown = service.on_terminal(*FLAGS, "--", "sh", "-c", "sleep 1; printf 'lo\\033[31mg'; exit 6")
    assert shown.code == 6
    assert "lo\x1b[31mg" in shown.out
    assert "log\nschedulearn: job" in without_escapes(shown.out)
    wait_for(lambda: service.invoke("ls", "--json").json["items"] == [])


def test_a_job_without_gpus_runs_while_all_gpus_are_taken(service: Service) -> None:
    big = service.submit_shell("sleep 60", gpus=4)
    service.wait(big, "running")
    shown = "echo $NVIDIA_VISIBLE_DEVICES $SCHEDULEARN_NUM_GPUS; sleep 0.2"
    assert service.invoke("submit", "--image", IMAGE, "--gpus", "0", "--", "sh", "-c", shown).out == "void 0\n"
    assert service.job(big)["state"] == "running"
