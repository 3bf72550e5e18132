"""What jobs name that may change: a branch of a repository, a file with requirements. Read before they are stored, so
that each attempt runs the same."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from schedulearn.scheduler.code.git import GitCode, fetch_git
from schedulearn.scheduler.code.store import CodeStore
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.specs.code import CodeSpec
from schedulearn.scheduler.specs.job import JobSpec
from schedulearn.scheduler.specs.requirements import MAX_BYTES, requirement_lines

MAX = 16
"""Repositories and refs of one request: each takes seconds."""
_AT_ONCE = threading.BoundedSemaphore(4)


def to_fetch(specs: Sequence[JobSpec]) -> list[tuple[str, str]]:
    """(repository, ref) of each that must be fetched, once. Raises InvalidError for too many."""
    sources = [_source(spec.code) for spec in specs if spec.code is not None and spec.code.digest is None]
    found = list(dict.fromkeys(sources))
    if len(found) > MAX:
        raise InvalidError(f"a batch names at most {MAX} repositories and refs, not {len(found)}", field="code")
    return found


def is_settled(specs: Sequence[JobSpec]) -> bool:
    """Whether they say all by themselves."""
    return not any(isinstance(spec.requirements, str) for spec in specs) and not to_fetch(specs)


def settled(specs: Sequence[JobSpec], store: CodeStore, allowed: Sequence[str]) -> list[JobSpec]:
    """The jobs, each with the digest and the commit of its code, and the lines of its requirements. Takes as long as
    git does. Raises InvalidError."""
    read: dict[tuple[str, str], list[str]] = {}
    return [_with_requirements(spec, store, read) for spec in _with_fetched_code(specs, store, allowed)]


def _with_fetched_code(specs: Sequence[JobSpec], store: CodeStore, allowed: Sequence[str]) -> list[JobSpec]:
    fetched: dict[tuple[str, str], GitCode] = {}
    for url, ref in to_fetch(specs):
        with _AT_ONCE:
            fetched[url, ref] = fetch_git(url, ref, store, allowed)
    return [_with(spec, fetched) for spec in specs]


def _with_requirements(spec: JobSpec, store: CodeStore, read: dict[tuple[str, str], list[str]]) -> JobSpec:
    if not isinstance(spec.requirements, str) or spec.code is None or spec.code.digest is None:
        return spec
    key = (spec.code.digest, spec.requirements)
    if key not in read:
        try:
            read[key] = requirement_lines(store.read(*key, MAX_BYTES).decode().splitlines())
        except ValueError as error:  # also of text that is not UTF-8
            raise InvalidError(f"{spec.requirements}: {error}", field="requirements") from error
    return spec.model_copy(update={"requirements": read[key]})


def _source(code: CodeSpec) -> tuple[str, str]:
    return code.git or "", code.ref or "HEAD"


def _with(spec: JobSpec, fetched: dict[tuple[str, str], GitCode]) -> JobSpec:
    if spec.code is None or spec.code.digest is not None:
        return spec
    found = fetched[_source(spec.code)]
    told = {"digest": found.stored.digest, "commit": found.commit, "dirty": False}
    return spec.model_copy(update={"code": spec.code.model_copy(update=told)})
