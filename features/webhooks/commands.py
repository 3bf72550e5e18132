"""Command group `webhooks`."""

from __future__ import annotations

import os

import click

from schedulearn.api.cli.common import Cell, CliSession, Group, clean, pass_session, print_json, print_table
from schedulearn.api.cli.times import show_time
from schedulearn.api.client.client import Json


@click.group(cls=Group)
def webhooks() -> None:
    """Manage webhooks: URLs that receive events."""


@webhooks.command("ls")
@pass_session
def list_webhooks(session: CliSession) -> None:
    """List webhooks with the result of the last delivery.

    \b
    Example:
      schedulearn webhooks ls
    """
    found = session.client.webhooks()
    if session.as_json:
        print_json(found)
        return
    print_table(session, ("ID", "EVENTS", "DELIVERED", "LAST", "STATE", "URL"), list(map(_row, found["items"])))


def _row(hook: Json) -> list[Cell]:
    last = hook["last"]
    state: Cell = ("active", "green") if hook["active"] else ("paused", "yellow")
    if last is not None and last["error"]:
        again = f", tried {hook['failing']} times" if hook["failing"] else ""
        state = (f"{last['error']}{again}", "red")
    lost = f" ({hook['given_up']} given up)" if hook["given_up"] else ""
    when = show_time(last["at"]) if last is not None else "-"
    return [str(hook["id"]), ",".join(hook["events"]), f"{hook['delivered']}{lost}", when, state, hook["url"]]


@webhooks.command("add")
@click.argument("receiver", metavar="URL")
@click.option("--event", "events", multiple=True, metavar="NAME", help="Event to send; see the list. Repeatable.")
@click.option(
    "--signed", is_flag=True, help="Sign with the secret in SCHEDULEARN_WEBHOOK_SECRET; else it is asked for."
)
@pass_session
def add(session: CliSession, receiver: str, events: tuple[str, ...], signed: bool) -> None:
    """Send future events to a URL as JSON.

    Events: job.running, job.ended, job.failed, job.hung, sweep.ended, host.lost, host.back, gpu.unhealthy,
    policy.changed. By default job.ended, host.lost and gpu.unhealthy.

    \b
    Examples:
      schedulearn webhooks add https://chat.example.org/hooks/abc
      schedulearn webhooks add http://pager:8080/ --event job.failed --event host.lost --signed
    """
    spec: Json = {"url": receiver, **({"events": list(events)} if events else {})}
    if signed:
        spec["secret"] = os.environ.get("SCHEDULEARN_WEBHOOK_SECRET") or click.prompt("Secret", hide_input=True)
    hook = session.client.add_webhook(spec)
    if session.as_json:
        print_json(hook)
        return
    click.echo(f"webhook {hook['id']} gets {', '.join(hook['events'])}")
    click.echo(f"Try it: schedulearn webhooks test {hook['id']}")


@webhooks.command("pause")
@click.argument("webhook", type=int)
@pass_session
def pause(session: CliSession, webhook: int) -> None:
    """Pause a webhook.

    Events during the pause are never sent.

    \b
    Example:
      schedulearn webhooks pause 1
    """
    _set(session, webhook, active=False)


@webhooks.command("resume")
@click.argument("webhook", type=int)
@pass_session
def resume(session: CliSession, webhook: int) -> None:
    """Resume a webhook, from the next event on.

    \b
    Example:
      schedulearn webhooks resume 1
    """
    _set(session, webhook, active=True)


def _set(session: CliSession, webhook: int, *, active: bool) -> None:
    hook = session.client.set_webhook(webhook, active=active)
    if session.as_json:
        print_json(hook)
    else:
        click.echo(f"webhook {hook['id']} is {'active' if hook['active'] else 'paused'}")


@webhooks.command("test")
@click.argument("webhook", type=int)
@pass_session
def test(session: CliSession, webhook: int) -> int:
    """Send a test event now and show the response.

    The exit code is 1 if the event was not accepted.

    \b
    Example:
      schedulearn webhooks test 1
    """
    result = session.client.test_webhook(webhook)
    if session.as_json:
        print_json(result)
    elif result["ok"]:
        click.echo(f"accepted: {result['status']} after {result['seconds']:.1f} s")
    else:
        click.echo(f"not accepted: {clean(result['error'])}")
    return 0 if result["ok"] else 1


@webhooks.command("rm")
@click.argument("webhook", type=int)
@pass_session
def remove(session: CliSession, webhook: int) -> None:
    """Remove a webhook.

    \b
    Example:
      schedulearn webhooks rm 1
    """
    session.client.remove_webhook(webhook)
    if not session.as_json:
        click.echo(f"webhook {webhook} is removed")
