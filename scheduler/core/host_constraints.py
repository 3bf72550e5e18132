"""Constraints of a job on hosts: names, labels, GPU memory, empty hosts. Pure.

The keys of a job that state them are in `specs/where.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from schedulearn.scheduler.core.cluster_state import Gpu, Host, HostConstraints
from schedulearn.scheduler.core.task import GIB

MEMORY_TAKEN = 0.08
"""Share of a GPU's nominal memory that its driver may not report. ECC and the driver take up to 7.8 % (Tesla T4)."""
_MOST_NAMES = 5  # that a sentence shows


def requirement(wanted: HostConstraints) -> str:
    """Return the constraints in words that follow "2 GPUs", such as "on hosts with room=b2"."""
    words = []
    if least := wanted.get("gpu_memory_min"):
        words.append(f"with at least {_size(least)} of memory each")
    if where := place(wanted):
        words.append(f"on {where}")
    if wanted.get("exclusive"):
        words.append("where no other job runs" if where else "on hosts where no other job runs")
    return " ".join(words)


def place(wanted: HostConstraints) -> str:
    """Return the required hosts in words, such as "hosts with room=b2"; empty if any will do."""
    names, labels = _split(wanted.get("hosts", ()))
    found = ""
    if names:
        found = _listed(sorted(names), "or")
    if labels:
        values = (f"{key}={_listed(sorted(values), 'or')}" for key, values in sorted(labels.items()))
        found = f"{found or 'hosts'} with {' and '.join(values)}"
    if excluded := wanted.get("exclude_hosts"):
        found = f"{found or 'hosts'} other than {_listed(excluded, 'and')}"
    return found


def _listed(names: Sequence[str], word: str) -> str:
    shown = list(names[:_MOST_NAMES])
    more = len(names) - len(shown)
    shown += [f"{more} more"] if more else []
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {word} {shown[-1]}"


def _size(size: float) -> str:
    return f"{size / GIB:.3g} GiB"


def _split(terms: Iterable[str]) -> tuple[set[str], dict[str, set[str]]]:
    """Return names, and the values of each label."""
    names: set[str] = set()
    labels: dict[str, set[str]] = {}
    for term in terms:
        key, equals, value = term.partition("=")
        if equals:
            labels.setdefault(key, set()).add(value)
        else:
            names.add(term)
    return names, labels


def unfit_hosts(wanted: HostConstraints, hosts: Sequence[Host]) -> dict[str, str]:
    """Return host -> why its name or labels do not match, without a full stop."""
    names, labels = _split(wanted.get("hosts", ()))
    barred, barred_labels = _split(wanted.get("exclude_hosts", ()))
    if not (names or labels or barred or barred_labels):
        return {}
    found = {}
    for host in hosts:
        lacks = next((key for key in sorted(labels) if host.labels.get(key) not in labels[key]), None)
        has = next((key for key in sorted(barred_labels) if host.labels.get(key) in barred_labels[key]), None)
        if names and host.id not in names:
            found[host.id] = f"host {host.id} is not one of its hosts"
        elif lacks is not None:
            there = host.labels.get(lacks)
            found[host.id] = f"host {host.id} has {'no label ' + lacks if there is None else f'{lacks}={there}'}"
        elif host.id in barred:
            found[host.id] = f"the job excludes host {host.id}"
        elif has is not None:
            found[host.id] = f"the job excludes {has}={host.labels[has]}, which host {host.id} has"
    return found


@dataclass(frozen=True)
class Misfits:
    """Hosts on which jobs can't run by their constraints. Equal constraints are judged once."""

    hosts: Sequence[Host]
    gpus: Sequence[Gpu]
    part_of: Mapping[str, str]
    """GPU -> part of its host, as policies see it."""
    _known: dict[tuple[object, ...], Mapping[str, str]] = field(default_factory=dict)

    def of(self, wanted: HostConstraints) -> Mapping[str, str]:
        """Return host, or part of a host -> why a job can't run there, without a full stop."""
        least = wanted.get("gpu_memory_min", 0)
        key = (tuple(wanted.get("hosts", ())), tuple(wanted.get("exclude_hosts", ())), least)
        if key not in self._known:
            by_memory = self._too_small(least) if least else {}
            self._known[key] = {**by_memory, **unfit_hosts(wanted, self.hosts)}
        return self._known[key]

    def _too_small(self, least: int) -> dict[str, str]:
        """Return the parts with a GPU of less memory. Unknown memory counts as too small."""
        found = {}
        for gpu in self.gpus:
            if gpu.memory_bytes < least * (1 - MEMORY_TAKEN):
                part = self.part_of.get(gpu.uuid, gpu.host_id)
                has = _size(gpu.memory_bytes) if gpu.memory_bytes > 0 else "an unknown amount"
                found[part] = f"GPUs of host {part} have {has} of memory"
        return found
