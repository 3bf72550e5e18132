"""What jobs get of others: versions of data sets, which names mean when a job is submitted, and the outputs of jobs
before it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import cast

from sqlalchemy.engine import Connection

from schedulearn.scheduler.core.needs import INPUTS, outputs_key
from schedulearn.scheduler.data.manifest import split_reference
from schedulearn.scheduler.errors import InvalidError, NotFoundError
from schedulearn.scheduler.specs.job import JobSpec
from schedulearn.scheduler.store.data import versions
from schedulearn.scheduler.store.repository import job_names

_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def has_inputs(spec: JobSpec) -> bool:
    return bool(spec.data or spec.after)


def pinned(conn: Connection, data: Mapping[str, str]) -> dict[str, str]:
    """The same with the version of each name. Raises InvalidError for what there is not."""
    return {found.reference: target for found, target in _versions(conn, data)}


def settle_inputs(conn: Connection, rows: Sequence[dict[str, object]], specs: Sequence[JobSpec]) -> None:
    """Write into each row of a job what its names mean now. Raises InvalidError. Jobs of a batch often name the same:
    each question is asked once."""
    names = job_names(conn, {job_id for spec in specs if spec.after for job_id in spec.after.jobs})
    known: dict[tuple[tuple[str, str], ...], list[tuple[versions.Version, str]]] = {}
    folders: dict[tuple[str, ...], dict[str, str]] = {}
    for index, (row, spec) in enumerate(zip(rows, specs, strict=True)):
        data, before = tuple(spec.data.items()), tuple(spec.after.jobs) if spec.after else ()
        if data not in known:
            try:
                known[data] = _versions(conn, spec.data)
            except InvalidError as error:
                raise InvalidError(error.detail, field="data" if len(specs) == 1 else f"{index}.data") from error
        if before not in folders:
            folders[before] = _outputs_of(names, before)
        found = known[data]
        if found:
            cast("dict[str, object]", row["spec"])["data"] = {each.reference: target for each, target in found}
        row["inputs"] = {**{target: version.digest for version, target in found}, **folders[before]}


def versions_named(rows: Sequence[Mapping[str, object]]) -> set[str]:
    """Return the versions of data sets that settled rows name."""
    specs = [cast("Mapping[str, Mapping[str, str]]", row["spec"]) for row in rows]
    return {reference for spec in specs for reference in spec.get("data", {})}


def check_there(conn: Connection, references: Collection[str]) -> None:
    """Raise InvalidError for a version that was removed since its name was settled."""
    for reference in sorted(references):
        pinned(conn, {reference: ""})


def _versions(conn: Connection, data: Mapping[str, str]) -> list[tuple[versions.Version, str]]:
    found = []
    for reference, target in data.items():
        try:
            found.append((versions.find(conn, *split_reference(reference)), target))
        except NotFoundError as error:
            raise InvalidError(error.detail, field="data") from error
    doubled = [name for name, count in Counter(version.reference for version, _ in found).items() if count > 1]
    if doubled:
        raise InvalidError(f"{doubled[0]} is named twice: a job has each version at one place", field="data")
    return found


def _outputs_of(names: Mapping[str, str], job_ids: Sequence[str]) -> dict[str, str]:
    """Path in the container -> key. A job's folder has its name where that is a plain one and no other's, else its
    id."""
    wanted = list(dict.fromkeys(job_ids))
    count = Counter(names.get(job_id) for job_id in wanted)
    folders = {}
    for job_id in wanted:
        name = names.get(job_id, "")
        plain = _FOLDER.fullmatch(name) and count[name] == 1 and name not in wanted
        folders[f"{INPUTS}/{name if plain else job_id}"] = outputs_key(job_id)
    return folders
