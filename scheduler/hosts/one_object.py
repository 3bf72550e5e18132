"""Errors about one object of many on a host."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from schedulearn.scheduler.errors import ObjectFault

log = logging.getLogger(__name__)


@contextmanager
def about_one(what: str) -> Iterator[None]:
    """Log an engine's error about one object; the caller continues with the others."""
    try:
        yield
    except ObjectFault as fault:
        log.warning("%s: failed, will be tried again: %s", what, fault)
