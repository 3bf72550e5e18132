"""Command group `notify`."""

from __future__ import annotations

import sys

import click

from schedulearn.api.cli.common import Cell, CliSession, Group, clean, pass_session, print_json, print_table
from schedulearn.api.cli.times import show_time
from schedulearn.api.client.client import Json


@click.group(cls=Group)
def notify() -> None:
    """Manage the addresses that get notices about your jobs.

    A job names its recipients: `schedulearn run --notify me`."""


@notify.command("add")
@click.argument("name")
@click.argument("address", required=False)
@click.option("--on", "events", multiple=True, metavar="EVENT", help="Event to send. Repeatable.")
@click.option("--every-job", is_flag=True, help="Send notices about all your jobs, without --notify.")
@pass_session
def add(session: CliSession, /, name: str, address: str | None, events: tuple[str, ...], every_job: bool) -> None:
    """Add or change an address.

    It is an e-mail address, an http(s) URL that gets JSON, or the address of a chat such as ntfy://ntfy.sh/topic.
    Without ADDRESS, it is asked for, or read from stdin in a pipe: it may hold a secret, which others could read in
    the list of processes.

    Events: end, failure, hang, start, preemption. By default end and hang.

    \b
    Examples:
      schedulearn notify add mail ada@lab.org
      schedulearn notify add phone --on failure --on hang --every-job
      schedulearn notify add slack < ~/.slack-address
    """
    if address is None:
        is_asked = sys.stdin.isatty()
        address = (
            click.prompt(f"Address of {name}", hide_input=True, err=True) if is_asked else sys.stdin.read().strip()
        )
    made = session.client.set_notice_address(name, address, events=events, every_job=every_job)
    if session.as_json:
        print_json(made)
        return
    click.echo(f"{clean(name)} gets {', '.join(made['events'])}{' of every job' if every_job else ''}")
    click.echo(f"Try it: schedulearn notify test {clean(name)}")


@notify.command("ls")
@pass_session
def list_addresses(session: CliSession) -> None:
    """List your addresses with the result of the last try.

    \b
    Example:
      schedulearn notify ls
    """
    found = session.client.notice_addresses()
    if session.as_json:
        print_json(found)
        return
    header = ("NAME", "ADDRESS", "EVENTS", "JOBS", "DELIVERED", "LAST", "STATE")
    print_table(session, header, list(map(_row, found["items"])))


def _row(item: Json) -> list[Cell]:
    state: Cell = ("ok", "green") if item["last_at"] else "-"
    if item["last_error"]:
        waiting = f", {item['waiting']} waiting" if item["waiting"] else ""
        state = (f"{item['last_error']}{waiting}", "red")
    lost = f" ({item['given_up']} given up)" if item["given_up"] else ""
    return [
        item["name"],
        item["address"],
        ",".join(item["events"]),
        "all" if item["every_job"] else "named",
        f"{item['delivered']}{lost}",
        show_time(item["last_at"]) if item["last_at"] else "-",
        state,
    ]


@notify.command("test")
@click.argument("name", required=False)
@pass_session
def test(session: CliSession, /, name: str | None) -> int:
    """Send a trial notice now, and show whether it was accepted.

    Without NAME, it goes to all of your addresses. The exit code is 1 if one did not accept it.

    \b
    Examples:
      schedulearn notify test
      schedulearn notify test phone
    """
    names = [name] if name else [item["name"] for item in session.client.notice_addresses()["items"]]
    if not names:
        raise click.UsageError("you have no addresses: schedulearn notify add mail ada@lab.org")
    results = {each: session.client.test_notice_address(each) for each in names}
    if session.as_json:
        print_json(results)
    else:
        for each, result in results.items():
            said = f"accepted after {result['seconds']:.1f} s" if result["ok"] else f"not accepted: {result['error']}"
            click.echo(f"{clean(each)}: {clean(said)}")
    return 0 if all(result["ok"] for result in results.values()) else 1


@notify.command("log")
@click.argument("job")
@pass_session
def log(session: CliSession, /, job: str) -> None:
    """List the notices about a job, newest first.

    \b
    Example:
      schedulearn notify log last
    """
    found = session.client.notices(session.job_id(job))
    if session.as_json:
        print_json(found)
        return
    rows: list[list[Cell]] = [
        [show_time(each["created_at"]), each["event"], each["to"], each["state"], str(each["tries"]), each["error"]]
        for each in found["items"]
    ]
    print_table(session, ("AT", "EVENT", "TO", "STATE", "TRIES", "ERROR"), rows)


@notify.command("rm")
@click.argument("name")
@pass_session
def remove(session: CliSession, /, name: str) -> None:
    """Remove an address. Its waiting notices are given up.

    \b
    Example:
      schedulearn notify rm phone
    """
    session.client.remove_notice_address(name)
    if not session.as_json:
        click.echo(f"{clean(name)} is removed")
