"""wait, resubmit."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from clusters import wait_for
from services import IMAGE, Service


def test_wait_ends_with_0_once_all_have_succeeded(service: Service, tmp_path: Path) -> None:
    flag = tmp_path / "go"
    slow = service.submit_shell(f"while [ ! -e {flag} ]; do sleep 0.02; done")
    quick = service.submit_shell("true")
    with service.begin("wait", slow, quick) as waiting:
        service.wait(slow, "running")
        assert waiting.poll() is None
        flag.touch()
        out, _ = waiting.communicate(timeout=30)
    assert waiting.returncode == 0
    assert [line.split()[:2] for line in out.splitlines()] == [[slow, "succeeded"], [quick, "succeeded"]]


def test_wait_ends_as_the_first_that_did_not_succeed(service: Service) -> None:
    well, bad, worse = (service.submit_shell(f"exit {code}") for code in (0, 5, 6))
    items = service.invoke("wait", "--json", well, bad, worse, code=5).json["items"]
    assert [item["state"] for item in items] == ["succeeded", "failed", "failed"]
    service.invoke("wait", well)
    service.invoke("wait", worse, bad, code=6)


def test_wait_tells_a_cancelled_job_by_130_and_a_time_limit_by_124(service: Service) -> None:
    job_id = service.submit_shell("sleep 60")
    service.invoke("cancel", job_id)
    service.invoke("wait", job_id, code=130)
    service.invoke("wait", service.submit_shell("sleep 60", max_duration=0.2), code=124)


def test_wait_gives_up_after_its_timeout_and_leaves_the_job(service: Service) -> None:
    job_id = service.submit_shell("sleep 60")
    service.wait(job_id, "running")
    assert f"job {job_id} is still" in service.invoke("wait", "--timeout", "0.3s", job_id, code=124).err
    assert service.job(job_id)["state"] == "running"


def test_wait_survives_a_restart_of_the_service(start_service: Callable[..., Service], tmp_path: Path) -> None:
    service, flag = start_service(), tmp_path / "go"
    job_id = service.submit_shell(f"while [ ! -e {flag} ]; do sleep 0.02; done; exit 4")
    quick = service.submit_shell("true")
    service.wait(job_id, "running")
    with service.begin("wait", quick, job_id) as waiting:
        assert waiting.stdout.readline().startswith(quick)
        service.kill()
        service.start()
        flag.touch()
        out, _ = waiting.communicate(timeout=60)
    assert (waiting.returncode, out.split()[:2]) == (4, [job_id, "failed"])


def test_wait_for_what_is_not_there_is_wrong(service: Service) -> None:
    assert "there is no job" in service.invoke("wait", "0000000000", code=1).err
    service.invoke("wait", code=2)


def test_logs_begin_lines_with_their_times_when_asked(service: Service) -> None:
    job = service.submit_shell("echo one; echo two")
    service.wait(job, "succeeded")
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    for options in ("-t", "-tf"):
        out = service.invoke("logs", options, job).out
        assert re.fullmatch(rf"{stamp} one\n{stamp} two\n", out), out
    assert service.invoke("logs", job).out == "one\ntwo\n"
    [piece] = [json.loads(line) for line in service.invoke("logs", "--json", "-f", job).out.splitlines()]
    assert (piece["text"], piece["attempt"], piece["rank"]) == ("one\ntwo\n", 1, 0)
    [[line, second]] = piece["times"]
    assert line == 0
    assert second <= time.time()
    assert "-f each piece has its times" in service.invoke("logs", "--json", "-t", job, code=2).err


def test_resubmit_makes_a_new_job_of_the_same_with_hidden_values(service: Service) -> None:
    first = service.submit_shell("echo $SECRET_WORD; exit 3", env={"SECRET_WORD": "swordfish"}, priority=70)
    service.invoke("wait", first, code=3)
    again = service.invoke("resubmit", "-d", first).out.strip()
    assert again != first
    assert service.wait(again, "failed")["priority"] == 70
    assert service.logs(again) == "swordfish\n"
    assert service.invoke("resubmit", first, code=3).out == "swordfish\n", "followed like submit"


def test_resubmit_takes_the_flags_of_submit(service: Service) -> None:
    first = service.submit_shell("echo one", labels={"try": "1", "team": "v"}, env={"LR": "0.1"})
    job = service.invoke(
        *("resubmit", "--json", first, "--gpus", "2", "--label", "try=2", "--env", "EPOCHS=3", "--priority", "9"),
        *("--", "sh", "-c", "echo $LR $EPOCHS"),
    ).json
    expected = {"required_gpus": 2, "min_gpus": 2, "max_gpus": 2, "labels": {"try": "2", "team": "v"}, "priority": 9}
    assert {key: job[key] for key in expected} == expected
    assert service.logs(job["id"]) == "0.1 3\n"
    assert job["family"] != service.job(first)["family"], "the family follows from the command"


def test_hidden_values_never_reach_another_program(service: Service) -> None:
    first = service.submit_shell("true", env={"TOKEN": "x"})
    refused = service.invoke("resubmit", first, "--", "env", code=1)
    assert f"from a job with the same program; different from job {first}: command." in refused.err


def test_a_deadline_that_has_passed_is_not_taken_over(service: Service) -> None:
    first = service.submit_shell("true", deadline="2020-01-01")
    assert service.invoke("resubmit", "--json", first).json["deadline"] is None
    later = service.submit_shell("true", deadline="2150-01-01")
    assert service.invoke("resubmit", "--json", later).json["deadline"] == "2150-01-01T00:00:00.000Z"


def test_rm_deletes_what_has_ended_and_refuses_what_has_not(service: Service) -> None:
    script = "echo bye; touch $SCHEDULEARN_CHECKPOINT_DIR/model"
    one, two = (service.submit_shell(script, labels={"sweep": "rm"}, user="ada") for _ in range(2))
    running = service.submit_shell("sleep 60", labels={"sweep": "rm"}, user="ada")
    service.invoke("wait", one, two)
    assert service.invoke("rm", "--label", "sweep=rm", "--user", "ada", code=0).out.count("deleted") == 2
    assert "cancel it" in service.invoke("rm", running, code=1).err
    assert "there is no job" in service.invoke("show", one, code=1).err
    # `rglob` fails at a folder that goes meanwhile.
    wait_for(
        lambda: (
            not [name for _, *kinds in os.walk(service.data) for name in chain(*kinds) if one in name or two in name]
        )
    )
    assert "no ended job" in service.invoke("rm", "--label", "sweep=rm", "--user", "ada", code=1).err
    service.invoke("rm", code=2)


def test_ls_mine_lists_what_the_account_that_asks_has_submitted(service: Service) -> None:
    ours = service.invoke("submit", "--image", IMAGE, "--launcher", "none", "-d", "--", "sleep", "60").out.strip()
    theirs = service.submit_shell("sleep 60", user="somebody-else")
    listed = [job["id"] for job in service.invoke("ls", "--mine", "--json").json["items"]]
    assert ours in listed
    assert theirs not in listed
    assert theirs in [job["id"] for job in service.invoke("ls", "--json").json["items"]], "scripts see all, as before"
    service.invoke("ls", "--mine", "--user", "ada", code=2)


def test_hold_and_release(service: Service) -> None:
    jobs = [service.submit_shell("true", hold=True) for _ in range(2)]
    out = service.invoke("hold", *jobs).out.splitlines()
    assert [line.split()[:3] for line in out] == [[job, "queued:", "Held"] for job in jobs]
    assert "earliest start" not in service.invoke("show", jobs[0]).out
    items = service.invoke("release", "--json", *jobs).json["items"]
    assert [item["held_at"] for item in items] == [None, None]
    service.invoke("wait", *jobs)
    refused = service.invoke("hold", jobs[0], code=1).err
    assert f"job {jobs[0]} has ended already: succeeded" in refused


def test_a_paused_job_continues_where_it_was(service: Service, tmp_path: Path) -> None:
    """The script saves what it has at SIGTERM, as the worker SDK does, and ends with its code for that."""
    saved = tmp_path / "saved"
    script = f"test -e {saved} && exit 0; trap 'touch {saved}; exit 75' TERM; while :; do sleep 0.05; done"
    job = service.submit_shell(script, elastic=True, max_gpus=1)
    service.wait(job, "running")
    service.invoke("pause", job)
    paused = service.wait(job, "queued")
    assert (paused["reason"], paused["gpus"], saved.exists()) == ("held", [], True)
    assert service.invoke("pause", job).out.startswith(f"{job} queued: Held by ")
    service.invoke("resume", job)
    service.invoke("wait", job)
    assert [task["outcome"] for task in service.job(job)["tasks"]] == ["paused", "completed"]


def test_run_and_submit_take_when_a_job_may_start(service: Service) -> None:
    options = ("-d", "--image", IMAGE, "--start-after", "2h", "--hold", "--launcher", "none")
    job = service.job(service.invoke("submit", *options, "--", "true").out.strip())
    assert job["hold"]
    assert job["reason"] == "held"
    assert "earliest start" in service.invoke("show", job["id"]).out
    assert "is not a time" in service.invoke("submit", "-d", "--start-after", "soon", "--", "true", code=2).err
    service.invoke("cancel", job["id"])
