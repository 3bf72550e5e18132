"""Which logins may use which images of one host.

An image that was pulled with a login of a user or a group stays on the engine. Other jobs must not run it from there:
they pull it again with their own login, or without one, and the registry decides. Ids of images count, not names, so
that no other name of an image leads around this. Kubernetes does the same (KubeletEnsureSecretPulledImages).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Protocol

from sqlalchemy.engine import Connection

from schedulearn.scheduler.core.registries import NO_LOGIN, repository_of
from schedulearn.scheduler.errors import ImageUnavailable
from schedulearn.scheduler.runtimes.contract import FetchProgress, Images, RegistryLogin
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.people.registry_logins import RegistryLogins
from schedulearn.scheduler.store.resources import private_images as rows
from schedulearn.scheduler.store.resources.private_images import Private, Pull

_LEFT_S = 86_400.0
"""Age at which an interrupted pull is forgotten if it brought no image."""


class Access(Protocol):
    def login_of(self, user: str, image: str) -> int:
        """Return the id of the login with which a user's job pulls an image; `NO_LOGIN`: none of theirs."""

    def allowed_id(self, image: str, login: int) -> str | None:
        """Return the id of an image here that a job with this login may use.

        Empty: nothing here is private. None: it is not here, or it is private to other logins."""


class Unrestricted:
    """Access without logins."""

    def login_of(self, user: str, image: str) -> int:
        return NO_LOGIN

    def allowed_id(self, image: str, login: int) -> str | None:
        return ""


class ImageAccess:
    """`Access` of one host. `engine` returns the id of its engine, or raises RuntimeFault."""

    def __init__(
        self,
        db: Database,
        logins: RegistryLogins,
        images: Images,
        engine: Callable[[], str],
        clock: Callable[[], float],
    ) -> None:
        self._db = db
        self._logins = logins
        self._images = images
        self._engine = engine
        self._clock = clock
        self._lock = threading.Lock()
        self._under_way: set[int] = set()
        """Pulls of this process. Others were interrupted."""

    def login_of(self, user: str, image: str) -> int:
        return self._logins.find(user, image)

    def credentials(self, image: str, login: int) -> RegistryLogin | None:
        return self._logins.credentials(image, login)

    def allowed_id(self, image: str, login: int) -> str | None:
        private = self._load()
        if not private.rights and not private.pulls:
            return ""
        ids = self._images.identify(image)
        if not ids:
            return None
        owners = private.owners()
        for pull in private.pulls:
            if brought := self._brought(pull):
                owners.setdefault(brought, set()).add(pull.login_id)
        return ids[0] if all(not owners.get(each) or owners[each] & {login, NO_LOGIN} for each in ids) else None

    def fetch(self, image: str, login: int, steps: Callable[[], Iterator[FetchProgress]]) -> Iterator[FetchProgress]:
        """Bring an image here by `steps`, and record whose it is."""
        if login == NO_LOGIN:
            yield from steps()
            self._note_free(image)
            return
        there = self._images.listed()
        pull = self._begin(image, login)
        try:
            yield from steps()
            self._record(image, login, pull, there)
        except ImageUnavailable:  # the registry refused, so nothing came
            self._db.write(lambda db: rows.end_pulls(db, [pull]))
            raise
        finally:  # an interrupted pull keeps its row: the engine may still complete it
            with self._lock:
                self._under_way.discard(pull)

    def _begin(self, image: str, login: int) -> int:
        """Write down that a pull begins, and settle those that were interrupted."""
        engine, now = self._engine(), self._clock()
        private = self._load()
        listed = self._images.listed()
        with self._lock:
            left = [pull for pull in private.pulls if pull.id not in self._under_way]
        brought = {pull: found for pull in left if (found := self._brought(pull))}
        over = [pull.id for pull in left if pull in brought or now - pull.began_at > _LEFT_S]
        alive = {*listed, *(each.base for each in listed.values())}
        gone = [right for right in private.rights if right.image_id not in alive]
        before = next(iter(self._images.identify(image)), "")

        def change(db: Connection) -> int:
            for pull, image_id in brought.items():
                rows.allow(db, engine, image_id, pull.login_id)
            rows.end_pulls(db, over)
            rows.forget(db, gone)
            made = rows.begin_pull(db, engine, image, login, before, now)
            with self._lock:
                self._under_way.add(made)
            return made

        return self._db.write(change)

    def _record(self, image: str, login: int, pull: int, before: Mapping[str, object]) -> None:
        """Record the images that a pull brought. `before`: the images that the engine had."""
        engine, repository = self._engine(), repository_of(image)
        new = {
            image_id for image_id, each in self._images.listed().items()
            if image_id not in before and repository in map(repository_of, each.names)
        }  # fmt: skip
        current = set(self._images.identify(image)[:1])

        def change(db: Connection) -> None:
            private = rows.load(db, engine)
            owners, alone = private.owners(), all(each.id == pull for each in private.pulls)
            # An image that was here, free for all, stays so. Another pull under way may have brought it just now.
            free = {each for each in current if each in before and not owners.get(each) and alone}
            for image_id in (new | current) - free:
                rows.allow(db, engine, image_id, login)
            rows.end_pulls(db, [pull])

        self._db.write(change)

    def _note_free(self, image: str) -> None:
        """Record that an image was brought without a login, if it may be private otherwise."""
        private = self._load()
        if private.rights or private.pulls:
            for image_id in self._images.identify(image)[:1]:
                self._db.write(partial(rows.allow, engine_id=self._engine(), image_id=image_id, login=NO_LOGIN))

    def _brought(self, pull: Pull) -> str:
        """Return the id of the image that a pull has brought, as far as its name tells."""
        now = next(iter(self._images.identify(pull.image)), "")
        return now if now != pull.before else ""

    def _load(self) -> Private:
        engine = self._engine()
        with self._db.read() as db:
            return rows.load(db, engine)
