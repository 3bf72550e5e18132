"""Command group `hosts`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from schedulearn.api.cli.common import Cell, CliSession, Group, clean, pass_session, print_json, print_table
from schedulearn.api.cli.gpus import deadline_of, gpu, named, return_gpu, show
from schedulearn.api.cli.resources import RESOURCE_HEADERS, of_host
from schedulearn.api.cli.times import show_time
from schedulearn.api.client.client import Json


@click.group(cls=Group)
def hosts() -> None:
    """Manage hosts and their GPUs."""


hosts.add_command(show)
hosts.add_command(gpu)
hosts.add_command(return_gpu)


@hosts.command("ls")
@pass_session
def list_hosts(session: CliSession) -> None:
    """List hosts with state, used GPUs, load and problems.

    \b
    Example:
      schedulearn hosts ls
    """
    found = session.client.hosts()
    if session.as_json:
        print_json(found)
        return
    headers = ("HOST", "STATE", "USED", "GPUS", "TYPE", "LABELS", *RESOURCE_HEADERS, "RUNTIME", "ADDRESS", "PROBLEM")
    print_table(session, headers, list(map(_row, found)))


def _row(host: Json) -> list[Cell]:
    types = sorted({gpu["type"] for gpu in host["gpus"]})
    used = sum(1 for gpu in host["gpus"] if gpu["jobs"])
    state: Cell = ("unreachable", "bold red")
    if host["reachable"] or host["state"] == "parked":
        state = (host["state"], "green" if host["state"] == "active" else "yellow")
    return [
        host["id"],
        state,
        str(used),
        _count(host["gpus"]),
        ",".join(types),
        labels_of(host),
        *of_host(host["resources"]),
        host["runtime"],
        host["address"],
        ("; ".join(filter(None, [host["error"], *(p["message"] for p in host["problems"]), *_of_gpus(host)])), "red"),
    ]


def _count(gpus: Sequence[Json]) -> str:
    simulated = sum(1 for gpu in gpus if gpu["simulated"])
    return f"{len(gpus)} (simulated)" if simulated else str(len(gpus))


def _of_gpus(host: Json) -> list[str]:
    """Return why GPUs of a host are not available, and warnings about them."""
    unhealthy = [f"{named(gpu)} is unhealthy: {gpu['fault']}" for gpu in host["gpus"] if gpu["fault"]]
    taken = [f"{named(gpu)} is used by {gpu['occupied_by']}" for gpu in host["gpus"] if gpu["occupied_by"]]
    odd = [f"{named(gpu)}: {why}" for gpu in host["gpus"] for why in gpu["warnings"]]
    return unhealthy + taken + odd


@hosts.command("scaling")
@pass_session
def scaling(session: CliSession) -> None:
    """Show how many hosts should be on, and the limits.

    \b
    Example:
      schedulearn hosts scaling
    """
    cluster = session.client.cluster()
    rule, found = cluster["scaling"], session.client.hosts()
    parked = [host["id"] for host in found if host["state"] in ("parked", "emptying")]
    if session.as_json:
        print_json({**(rule or {}), "desired_hosts": cluster["desired_hosts"], "parked": parked})
        return
    if rule is None:
        click.echo("Hosts are not parked: the service has neither `scaling_hook` nor `mark_parked`.")
        return
    most = len(found) if rule["most"] is None else rule["most"]
    by = "what jobs need" if rule["target"] is None else f"{rule['target']:.0%} of the GPUs in use"
    click.echo(f"{cluster['desired_hosts']} hosts should be on: {rule['least']} to {most}, by {by}.")
    click.echo(f"A host is parked only if fewer were enough for {rule['window']:g} s.")
    click.echo(f"Parked: {clean(', '.join(parked)) or 'none'}.")


@hosts.command("add")
@click.argument("address")
@click.option("--name", default="", help="ID of the host.  [default: the host name in the address]")
@click.option(
    "--simulate-gpus",
    type=click.IntRange(0, 1024),
    metavar="N",
    help="Number of simulated GPUs, instead of the real ones.",
)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label of the host. Repeatable.")
@click.option(
    "--tls", default="", metavar="FOLDER", help="Folder with ca.pem, cert.pem and key.pem on the service's machine."
)
@click.option(
    "--network", default="", metavar="NAME", help="Network of jobs on several hosts: ADDRESS, INTERFACE or both with =."
)
@pass_session
def add(
    session: CliSession,
    address: str,
    name: str,
    simulate_gpus: int | None,
    labels: tuple[str, ...],
    tls: str,
    network: str,
) -> None:
    """Add a host with a Docker Engine.

    The host only needs Docker, and for GPUs the NVIDIA container toolkit.

    \b
    Examples:
      schedulearn hosts add ssh://user@gpu2
      schedulearn hosts add tcp://gpu3:2376 --tls /etc/schedulearn/gpu3 --label rack=b
      schedulearn hosts add unix:///run/other/docker.sock --name other --simulate-gpus 4
    """
    pairs = [label.partition("=") for label in labels]
    if wrong := [key for key, equals, _ in pairs if not equals or not key]:
        raise click.UsageError(f"--label {wrong[0]!r} must be KEY=VALUE")
    spec = {
        "address": address,
        "name": name,
        "simulate_gpus": simulate_gpus,
        "labels": {key: value for key, _, value in pairs},
        "tls": tls,
        "network": network,
    }
    host = session.client.add_host(spec)
    if session.as_json:
        print_json(host)
        return
    if host["reachable"]:
        click.echo(f"{clean(host['id'])} is there: Docker {clean(host['version'])}, {len(host['gpus'])} GPUs")
    else:
        click.echo(f"{clean(host['id'])} was added, and does not answer yet: {clean(host['error'])}")
        click.echo("The service keeps trying; see `schedulearn hosts ls`.")
    for problem in host["problems"]:
        click.echo(f"! {clean(problem['message'])}")


@hosts.command("rm")
@click.argument("host")
@click.option("--force", is_flag=True, help="Also remove a host with job containers: the jobs start again elsewhere.")
@pass_session
def remove(session: CliSession, host: str, force: bool) -> None:
    """Remove a host. Drain it first.

    \b
    Example:
      schedulearn hosts rm gpu2
    """
    session.client.remove_host(host, force=force)
    if not session.as_json:
        click.echo(f"{clean(host)} is removed")


@hosts.command("drain")
@click.argument("host")
@click.option(
    "--deadline",
    default="1h",
    metavar="TIME",
    help="Time until rigid jobs are stopped too: 90, 30m, 2h, 1d.  [default: 1h]",
)
@pass_session
def drain(session: CliSession, host: str, deadline: str) -> None:
    """Drain a host: no new jobs start there, its jobs leave.

    Elastic jobs leave now. Other jobs run until the deadline, and then start again elsewhere.

    \b
    Example:
      schedulearn hosts drain gpu2 --deadline 30m
    """
    _print(session, session.client.drain(host, deadline_of(deadline)))


@hosts.command("cordon")
@click.argument("host")
@pass_session
def cordon(session: CliSession, host: str) -> None:
    """Cordon a host: no new jobs start there, its jobs continue.

    \b
    Example:
      schedulearn hosts cordon local
    """
    _print(session, session.client.cordon(host))


@hosts.command("uncordon")
@click.argument("host")
@pass_session
def uncordon(session: CliSession, host: str) -> None:
    """Return a cordoned or drained host to service.

    \b
    Example:
      schedulearn hosts uncordon local
    """
    _print(session, session.client.uncordon(host))


@hosts.command("label")
@click.argument("host")
@click.argument("labels", nargs=-1, required=True, metavar="KEY=VALUE|KEY-...")
@pass_session
def label(session: CliSession, host: str, labels: tuple[str, ...]) -> None:
    """Set labels of a host. `KEY-` removes one.

    Jobs choose hosts by labels: `schedulearn run --hosts room=b2`.

    \b
    Examples:
      schedulearn hosts label gpu2 room=b2 disk=nvme
      schedulearn hosts label gpu2 room-
    """
    wanted: dict[str, str | None] = {}
    for each in labels:
        key, equals, value = each.partition("=")
        if equals and key and value:
            wanted[key] = value
        elif not equals and each.endswith("-") and len(each) > 1:
            wanted[each[:-1]] = None
        else:
            raise click.UsageError(f"{clean(each)!r} must be KEY=VALUE, or KEY- to remove a label")
    found = session.client.label_host(host, wanted)
    if session.as_json:
        print_json(found)
        return
    click.echo(f"{clean(found['id'])} has {clean(labels_of(found)) or 'no labels'}")


def labels_of(host: Json) -> str:
    """Return the labels of a host as `room=b2 disk=nvme`."""
    return " ".join(f"{key}={value}" for key, value in sorted(host["labels"].items()))


@hosts.command("disk")
@click.argument("host")
@pass_session
def disk(session: CliSession, host: str) -> None:
    """Show the disk use of a host.

    It lists images, checkpoints, outputs, data and current fetches, as the host reports them. FREED is the space that
    the removal of an image frees. Layers shared with other images stay.

    \b
    Example:
      schedulearn hosts disk gpu2
    """
    found = session.client.disk(host)
    if session.as_json:
        print_json(found)
        return
    rows: list[list[Cell]] = []
    for image in found["images"]:
        used = "in use" if image["in_use"] else show_time(image["used_at"]) if image["used_at"] else ""
        rows.append([_size(image["bytes"]), _size(image["own_bytes"]), "image", clean(image["name"]), used])
    for what in ("checkpoints", "outputs"):
        for each in found[what]:
            rows.append([_size(each["bytes"]), _size(each["bytes"]), what, clean(each["job"]), ""])
    rows += [[_size(each["bytes"]), _size(each["bytes"]), "data", clean(each["key"]), ""] for each in found["data"]]
    rows += [["", "", "fetch", clean(each["image"]), clean(each["message"])] for each in found["fetches"]]
    print_table(session, ("SIZE", "FREED", "WHAT", "NAME", "LAST USED"), rows)
    if session.pretty:
        click.echo(f"All images together: {_size(found['images_bytes'])}")


@hosts.command("pull")
@click.argument("host")
@click.argument("image")
@pass_session
def pull(session: CliSession, host: str, image: str) -> None:
    """Pull an image on a host before a job needs it.

    If the image is there, it is pulled again, in case its tag was moved. `hosts disk` shows the progress.

    \b
    Example:
      schedulearn hosts pull gpu2 schedulearn/horovod-cuda13
    """
    session.client.fetch_image(host, image)
    if not session.as_json:
        click.echo(f"{clean(host)} fetches {clean(image)}")


def _size(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e7 else f"{size / 1e3:.0f} kB"


def _print(session: CliSession, host: Json) -> None:
    if session.as_json:
        print_json(host)
    else:
        click.echo(f"{clean(host['id'])} is {host['state']}")
