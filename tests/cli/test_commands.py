"""ls, show, cancel, prio, policy, hosts and top."""

from __future__ import annotations

import getpass
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from clusters import wait_for
from services import IMAGE, Service, invoke, run
from terminals import without_escapes

import schedulearn
from schedulearn.api.client import sync_calls

NASTY = "\x1b[31mred\x07 [bold]markup[/bold] :smile: \u202e\r\nend"
ESCAPED = "\\x1b[31mred\\x07 [bold]markup[/bold] :smile: \\u202e\\r\\nend"


@pytest.fixture(scope="module")
def done(shared_service: Service) -> str:
    """A job that has ended, with a name that would do harm."""
    job_id = shared_service.submit_shell("echo hi; exit 3", name=f"a{NASTY}", labels={"x": NASTY})
    shared_service.wait(job_id, "failed")
    return job_id


@pytest.fixture
def running(service: Service) -> Iterator[str]:
    job_id = service.submit_shell("sleep 60", name="sleeper")
    service.wait(job_id, "running")
    yield job_id
    service.invoke("cancel", job_id)
    service.wait(job_id, "cancelled")


def test_sentences_name_the_jobs_that_they_speak_of(service: Service) -> None:
    first = service.submit("sleep 60", gpus=1, name="the-first")
    after = service.submit("true", gpus=1, after={"jobs": [first]})
    wait_for(lambda: "It waits for job the-first (" in service.invoke("ls").out, what="the list to say why it waits")
    assert "It waits for job the-first (" in service.invoke("show", after).out
    assert service.invoke("show", after, "--json").json["names"] == {first: "the-first"}


def test_ls_shows_unfinished_jobs_and_why_and_with_all_the_rest(service: Service, done: str, running: str) -> None:
    lines = service.invoke("ls").out.splitlines()
    assert lines[0].split() == ["ID", "NAME", "STATE", "GPUS", "PRIO", "TIME", "STARTS", "ENDS", "WHY"]
    assert [line.split()[0] for line in lines[1:]] == [running]
    assert "sleeper" in lines[1]
    assert "1 on local" in lines[1]
    assert "Running on local" in lines[1]
    everything = service.invoke("ls", "--all").out
    assert f"{done}  a{ESCAPED}  failed" in everything
    assert "exit code 3" in everything
    failed = service.invoke("ls", "--state", "failed", "--json").json["items"]
    assert {job["state"] for job in failed} == {"failed"}
    assert service.invoke("ls", "--all", "-q", "sleeper", "--json").json["items"][0]["id"] == running


def test_all_goes_through_every_page(service: Service) -> None:
    with schedulearn.Client(service.url) as api:
        every = [job["id"] for job in api.all_jobs()["items"]]
        sync_calls.PAGE, kept = 2, sync_calls.PAGE
        try:
            assert [job["id"] for job in api.all_jobs()["items"]] == every
        finally:
            sync_calls.PAGE = kept


@pytest.fixture(scope="module")
def four_done(shared_service: Service) -> list[str]:
    """Jobs that have ended one after the other, newest first."""
    jobs = []
    for n in range(4):
        jobs.insert(0, shared_service.submit_shell("true", name=f"done-{n}", labels={"of": "four"}))
        shared_service.wait(jobs[0], "succeeded")
    return jobs


def test_a_limit_bounds_ended_jobs_too(service: Service, four_done: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(*options: str) -> list[str]:
        return [line.split()[0] for line in service.invoke("ls", "--label", "of=four", *options).out.splitlines()[1:]]

    assert listed("--all", "--limit", "3") == four_done[:3]
    assert listed("--all", "-n", "1") == four_done[:1]
    assert listed("--state", "succeeded", "-n", "2") == four_done[:2]
    assert listed("--all") == four_done
    monkeypatch.setattr(sync_calls, "PAGE", 2)
    assert listed("--all", "--limit", "3") == four_done[:3], "over two pages"
    assert listed("--all", "--limit", "2") == four_done[:2]
    assert listed("--all", "--limit", "5000") == four_done
    assert "--limit" in service.invoke("ls", "--limit", "0", code=2).err


def test_since_leaves_out_what_had_ended_before(service: Service, four_done: list[str], running: str) -> None:
    moment = service.job(four_done[1])["finished_at"]
    since = service.invoke("ls", "--since", moment, "--json").json["items"]
    assert {running, *four_done[:2]} <= {job["id"] for job in since}
    assert not set(four_done[2:]) & {job["id"] for job in since}
    assert four_done[3] in service.invoke("ls", "--since", "2h").out
    assert four_done[0] not in service.invoke("ls", "--since", "0s").out
    assert len(service.invoke("ls", "--since", "2h", "--limit", "2").out.splitlines()) == 3
    assert "is not a time" in service.invoke("ls", "--since", "soon", code=2).err


def test_a_failed_job_says_what_its_log_says(service: Service) -> None:
    script = "echo 'epoch 1'; echo \"KeyError: 'lr'\" >&2; exit 3"
    failed = service.submit_shell(script)
    service.wait(failed, "failed")
    why = "The command ended with exit code 3: KeyError: 'lr'"
    assert why in service.invoke("ls", "--all", "-n", "1").out
    assert re.search(r"^its log says +KeyError: 'lr'$", service.invoke("show", failed).out, re.M)
    assert why in service.invoke("wait", failed, code=3).out
    flags = ("--image", IMAGE, "--launcher", "none")
    assert why in service.invoke("submit", *flags, "--", "sh", "-c", script, code=3).err
    silent = service.submit_shell("exit 4")
    service.wait(silent, "failed")
    assert "its log says" not in service.invoke("show", silent).out
    assert service.invoke("wait", silent, code=4).out.endswith("exit code 4.\n")


def test_on_a_terminal_there_are_colours_and_nothing_in_a_name_is_acted_upon(
    service: Service, done: str, running: str
) -> None:
    shown = service.on_terminal("ls", "--all", columns=300)
    assert shown.code == 0
    assert "\x1b[32mrunning" in shown.out
    assert f"a{ESCAPED}" in without_escapes(shown.out)
    for command in (["show", done], ["top"]):
        shown = service.on_terminal(*command, until="GPUs in use" if command == ["top"] else None)
        assert shown.code == 0
        assert "\x1b[31mred" not in shown.out
        assert "\x07" not in shown.out
    narrow = without_escapes(service.on_terminal("ls", "--all", columns=60).out)
    assert done in narrow
    assert all(len(line) <= 60 for line in narrow.splitlines())


def test_a_pipe_gets_neither_colour_nor_boxes(service: Service, done: str, running: str) -> None:
    for command in (["ls", "--all"], ["show", done], ["hosts", "ls"], ["policy", "get"], ["top"]):
        out = service.invoke(*command).out
        assert out
        assert out.replace("\n", "").isprintable()
        assert not set(out) & set("│─━┃┏╭")


def test_show_tells_the_job_its_attempts_and_what_happened(service: Service, done: str) -> None:
    out = service.invoke("show", done).out
    assert "exit code      3" in out
    assert f"label          x={ESCAPED}" in out
    assert "command_failed" in out
    assert "job.queued" in out
    assert "Submitted." in out


def test_a_description_is_stored_shown_and_submitted_again(service: Service) -> None:
    job_id = service.submit_shell("true", description="Baseline of table 2")
    service.wait(job_id, "succeeded")
    assert "description    Baseline of table 2" in service.invoke("show", job_id).out
    again = service.invoke("resubmit", "-d", job_id).out.split()[-1]
    assert service.call("GET", f"/api/v1/jobs/{again}")["description"] == "Baseline of table 2"


@pytest.mark.parametrize("end", [str.startswith, str.endswith])
def test_an_id_may_be_a_part_of_it(service: Service, end: Callable[[str, str], bool]) -> None:
    """The shortest beginning or end that no other job's id has."""
    job_id = service.submit_shell("true")
    service.wait(job_id, "succeeded")
    others = [job["id"] for job in service.invoke("ls", "--all", "--limit", "1000", "--json").json["items"]]
    others.remove(job_id)
    parts = [job_id[:n] if end is str.startswith else job_id[-n:] for n in range(4, len(job_id) + 1)]
    part = next(part for part in parts if not any(end(other, part) for other in others))
    assert service.invoke("show", part, "--json").json["id"] == job_id
    assert service.invoke("show", part.upper(), "--json").json["id"] == job_id


def test_last_is_your_own_newest_job_so_that_cancel_last_never_ends_a_colleagues(service: Service) -> None:
    mine = service.submit_shell("sleep 60", user=getpass.getuser())
    service.submit_shell("true", user="somebody-else")
    assert service.invoke("show", "last", "--json").json["id"] == mine
    assert service.invoke("cancel", "last").out.startswith(mine)


def test_last_of_somebody_without_a_job_is_an_error(start_service: Callable[..., Service]) -> None:
    service = start_service()
    service.wait(service.submit_shell("true", user="somebody-else"), "succeeded")
    said = service.invoke("cancel", "last", code=1).err
    assert f"{getpass.getuser()} has submitted no job" in said


def test_ls_and_cancel_by_label_and_cancel_only_ends_your_own(service: Service) -> None:
    me = getpass.getuser()
    nasty = 'it\'s "%_"'
    labelled = [service.submit_shell("sleep 60", user=me, labels={"sweep": "lr", nasty: str(i)}) for i in range(2)]
    other = service.submit_shell("sleep 60", user="somebody-else", labels={"sweep": "lr"})
    service.submit_shell("true", user=me, labels={"sweep": "other", "note": "lr"})
    both = service.invoke("ls", "--label", "sweep=lr", "--json").json["items"]
    assert {job["id"] for job in both} == {*labelled, other}
    found = service.http.request("GET", "/api/v1/jobs", params={"label": ["sweep=lr", "sweep=other"]}).json()["items"]
    assert [job["labels"]["sweep"] for job in found] == ["other"], "of one name said twice the last one counts"
    [second] = service.http.request("GET", "/api/v1/jobs", params={"label": f"{nasty}=1"}).json()["items"]
    assert second["id"] == labelled[1]
    ended = service.invoke("cancel", "--label", "sweep=lr").out.splitlines()
    assert {line.split()[0] for line in ended} == set(labelled)
    for job_id in labelled:
        service.wait(job_id, "cancelled")
    assert f"{me} has no unfinished job with sweep=lr" in service.invoke("cancel", "--label", "sweep=lr", code=1).err
    service.invoke("cancel", "--label", "sweep=lr", "--user", "somebody-else")
    assert service.wait(other, "cancelled")


@pytest.mark.parametrize(
    "arguments", [[], ["last", "--label", "a=b"], ["--label", "nonsense"], ["last", "--user", "ada"]], ids=str
)
def test_cancel_wants_ids_or_labels(service: Service, arguments: list[str]) -> None:
    service.invoke("cancel", *arguments, code=2)


def test_cancel_by_label_asks_on_a_terminal(service: Service) -> None:
    job_id = service.submit_shell("sleep 60", user=getpass.getuser(), labels={"ask": "me"})
    refused = service.on_terminal("cancel", "--label", "ask=me", until="[y/N]")
    assert "Cancel 1 job?" in refused.out
    assert service.job(job_id)["state"] != "cancelled"
    service.on_terminal("cancel", "--label", "ask=me", "--yes")
    service.wait(job_id, "cancelled")


def test_a_label_that_is_no_pair_is_refused(service: Service) -> None:
    answer = service.http.request("GET", "/api/v1/jobs", params={"label": "nonsense"})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "label")


def test_an_id_that_may_mean_several_jobs_is_refused_with_their_ids(service: Service) -> None:
    ids = [service.submit_shell("true") for _ in range(2)]
    said = service.invoke("show", ids[0][:1], code=1).err
    assert "may mean" in said
    assert ids[1] in said


@pytest.mark.parametrize("given", ["zzzzzzzzzz", "no-such-job", "../policy", "\x1b[31m", "", "a/b", "."])
def test_an_id_that_means_no_job_is_an_error(service: Service, given: str) -> None:
    said = service.invoke("show", given, code=1).err
    assert "there is no job" in said
    assert "\x1b" not in said


def test_cancel_takes_several_and_goes_on_after_one_that_fails(service: Service) -> None:
    first, second = service.submit_shell("sleep 60"), service.submit_shell("sleep 60")
    result = service.invoke("cancel", first, "nothing", second, code=1)
    assert "no job 'nothing'" in result.err
    assert [line.split()[0] for line in result.out.splitlines()] == [first, second]
    assert service.wait(first, "cancelled")
    assert service.wait(second, "cancelled")
    assert [job["id"] for job in service.invoke("cancel", "--json", first, second).json["items"]] == [first, second]
    third = service.submit_shell("true")
    service.wait(third, "succeeded")
    assert "has ended already" in service.invoke("cancel", third, code=1).err


def test_prio_changes_a_job_that_has_not_ended(service: Service, running: str, done: str) -> None:
    assert service.invoke("prio", running, "81").out == f"{running} has priority 81\n"
    assert service.job(running)["priority"] == 81
    assert service.invoke("prio", "--json", running, "82").json["priority"] == 82
    assert "101" in service.invoke("prio", running, "101", code=2).err
    assert "has ended already" in service.invoke("prio", done, "1", code=1).err


def test_policy_is_switched_and_its_parameters_are_json_where_they_are(service: Service) -> None:
    before = service.invoke("policy", "get", "--json").json
    try:
        set_ = service.invoke("policy", "set", "Round_Robin", "--param", "jobs_per_gpu=2", "--param", "backfill=true")
        assert set_.out.startswith("round-robin, metric default, jobs_per_gpu=2, backfill=true since")
        now = service.invoke("--json", "policy", "get").json
        assert (now["algorithm"], now["params"]) == ("round-robin", {"jobs_per_gpu": 2, "backfill": True})
        shown = service.invoke("policy", "get").out
        assert all(kind["name"] in shown for kind in now["available"])
    finally:
        service.invoke("policy", "set", before["algorithm"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["fifi"], "valid: "),
        (["fifo", "--metric", "sped"], "valid: default"),
        (["fifo", "--param", "nope=1"], "valid: "),
        (["fifo", "--param", "jobs_per_gpu=many"], "jobs_per_gpu"),
        (["fifo", "--param", "jobs_per_gpu=NaN"], "jobs_per_gpu"),
    ],
)
def test_a_wrong_policy_is_refused_with_what_would_be_right(service: Service, arguments: list[str], says: str) -> None:
    before = service.invoke("policy", "get", "--json").json
    assert says in service.invoke("policy", "set", *arguments, code=1).err
    assert service.invoke("policy", "get", "--json").json == before
    assert "KEY=VALUE" in service.invoke("policy", "set", "fifo", "--param", "nope", code=2).err


def test_a_preview_says_what_would_change_and_ls_when_it_ends(service: Service, running: str) -> None:
    found = service.invoke("policy", "preview", "goodput", "--metric", "speed", "--json").json
    assert [job["job"] for job in found["jobs"]] == [running]
    shown = service.invoke("policy", "preview", "goodput").out
    assert "1 jobs would not change." in shown
    assert "MEAN COMPLETION" in shown
    wait_for(lambda: service.job(running)["eta"], seconds=30, what="a prediction")
    listed = service.invoke("ls").out
    assert re.search(r" \d+\S* +- +in (\d+m)?\d+s\? +Running", listed), "TIME, no STARTS, ENDS by guess"
    assert "by guess" in service.invoke("show", running).out
    assert "valid: " in service.invoke("policy", "preview", "fifi", code=1).err


def test_single_gpus_are_closed_and_opened(service: Service) -> None:
    count = len(service.invoke("hosts", "show", "local", "--json").json["gpus"])
    assert service.invoke("hosts", "gpu", "cordon", "local", "0").out == "GPU 0 of local: cordoned\n"
    shown = service.invoke("hosts", "show", "local").out
    assert re.search(r"\n0 .* cordoned .* cordoned\n", shown)
    all_of_them = service.submit_shell("true", gpus=count)
    why = wait_for(lambda: service.job(all_of_them)["message"] if "cordoned" in str(service.job(all_of_them)) else "")
    assert "Not among them: 1 cordoned." in why
    assert "draining until 20" in service.invoke("hosts", "gpu", "drain", "local", "0", "--deadline", "5m").out
    [first, *_] = service.invoke("hosts", "show", "local", "--json").json["gpus"]
    assert (first["cordoned"], first["state"]) == (True, "cordoned")
    assert first["drain_until"]
    uuid = first["uuid"]
    assert service.invoke("hosts", "gpu", "return", "local", uuid).out == "GPU 0 of local: free\n"
    service.wait(all_of_them, "succeeded")
    assert "is in service" in service.invoke("hosts", "return", "local", "0", code=1).err
    assert "no GPU '99'" in service.invoke("hosts", "gpu", "cordon", "local", "99", code=1).err
    assert "no host 'nowhere'" in service.invoke("hosts", "gpu", "drain", "nowhere", "0", code=1).err
    assert "--deadline" in service.invoke("hosts", "gpu", "drain", "local", "0", "--deadline", "soon", code=2).err


def test_a_cordoned_host_gets_no_job_until_it_is_back(service: Service) -> None:
    assert service.invoke("hosts", "cordon", "local").out == "local is cordoned\n"
    job_id = service.submit_shell("true")
    assert "cordoned" in service.invoke("hosts", "ls").out
    assert service.invoke("hosts", "ls", "--json").json[0]["state"] == "cordoned"
    assert service.job(job_id)["state"] == "queued"
    assert service.invoke("hosts", "uncordon", "local", "--json").json["state"] == "active"
    shown = service.invoke("hosts", "show", "local").out
    assert re.search(r"GPU +PCI +NUMA +NVLINK +TYPE.*\n0 +- +- +- +\S+ +(free|used) ", shown)
    assert len(service.invoke("hosts", "show", "local", "--json").json["gpus"]) == shown.count("\n") - 1
    assert "Hosts are not parked" in service.invoke("hosts", "scaling").out
    assert service.invoke("hosts", "scaling", "--json").json["parked"] == []
    service.wait(job_id, "succeeded")
    assert "no host 'elsewhere'" in service.invoke("hosts", "cordon", "elsewhere", code=1).err


def test_top_in_a_pipe_prints_once(service: Service, running: str) -> None:
    out = service.invoke("top").out
    assert out.startswith("1 of 4 GPUs in use, 1 jobs on them, 0 waiting; policy goodput, metric default")
    assert f"{running} sleeper" in out
    assert "local:3" in out
    assert [job["id"] for job in service.invoke("top", "--json").json["jobs"]] == [running]


def test_top_on_a_terminal_ends_on_ctrl_c(service: Service, running: str) -> None:
    shown = service.on_terminal("top", "--interval", "0.2", until="sleeper")
    assert shown.code == 0
    assert "Traceback" not in shown.out


@pytest.mark.parametrize(
    "command", [["ls"], ["show", "last"], ["policy", "get"], ["hosts", "ls"], ["hosts", "uncordon", "local"], ["top"]]
)
def test_json_may_stand_before_or_after(service: Service, done: str, command: list[str]) -> None:
    after = service.invoke(*command, "--json").json
    before = service.invoke("--json", *command).json
    assert type(after) is type(before)
    assert len(after) == len(before)
    if len(command) > 1:
        service.invoke(command[0], "--json", *command[1:])


@pytest.mark.process
def test_version_and_help(service: Service) -> None:
    assert run("--version").out == f"schedulearn {schedulearn.__version__}\n"
    for command in ("serve", "submit", "ls", "show", "logs", "cancel", "prio", "top", "policy", "hosts"):
        assert command in invoke("--help").out
        assert "xample" in invoke(command, "--help").out or command in ("policy", "hosts")
    assert "Exit codes: 0" in invoke("--help").out
    run("nonsense", code=2)


@pytest.mark.process
def test_a_service_that_is_not_there_is_told_with_what_to_do() -> None:
    said = run("ls", url="http://127.0.0.1:9", code=1)
    assert said.out == ""
    assert "no Schedulearn answers at http://127.0.0.1:9" in said.err
    assert "schedulearn serve" in said.err
    assert said.err.count("\n") == 1
    assert "not the address" in invoke("ls", "--url", "ftp://x", code=1).err
    assert "not the address" in invoke("--url", "http://x:99999", "ls", code=1).err


@pytest.mark.process
def test_something_else_at_the_address_is_told() -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if "hosts" in self.path else 404)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert "is the address right?" in invoke("ls", url=url, code=1).err
        assert "is not Schedulearn" in invoke("hosts", "ls", url=url, code=1).err
        server.shutdown()
        thread.join()
