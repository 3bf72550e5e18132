"""Which logins may use which images of one host.

An image that was pulled with a login of a user or a group stays on the engine. Other jobs must not run it from there:
they pull it again with their own login, or without one, and the registry decides. Ids of images count, not names, so
that no other name of an image leads around this. Kubernetes does the same (KubeletEnsureSecretPulledImages).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Protocol

from sqlalchemy.engine import Connection

from schedulearn.scheduler.core.registries import DOCKER_HUB, NO_LOGIN, registry_of, repository_of
from schedulearn.scheduler.errors import ImageUnavailable
from schedulearn.scheduler.runtimes.contract import FetchProgress, Images, RegistryLogin
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.people.registry_logins import RegistryLogins
from schedulearn.scheduler.store.resources import private_images as rows
from schedulearn.scheduler.store.resources.private_images import NOBODY, Private, Pull

_LEFT_S = 86_400.0
"""Age at which an interrupted pull is forgotten if it brought no image."""


class ImageRights(Protocol):
    def login_of(self, user: str, image: str) -> int:
        """Return the id of the login with which a user's job pulls an image; `NO_LOGIN`: none of theirs."""

    def allowed_id(self, image: str, login: int) -> str | None:
        """Return the id of an image here that a job with this login may use.

        Empty: nothing here is private. None: it is not here, or it is private to other logins."""


class Unrestricted:
    """ImageRights without logins."""

    def login_of(self, user: str, image: str) -> int:
        return NO_LOGIN

    def allowed_id(self, image: str, login: int) -> str | None:
        return ""


class ImageAccess:
    """`ImageRights` of one host. `engine` returns the id of its engine, or raises RuntimeFault."""

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
        owners = self._owners(private)
        return ids[0] if all(not owners.get(each) or owners[each] & {login, NO_LOGIN} for each in ids) else None

    def fetch(self, image: str, login: int, steps: Callable[[], Iterator[FetchProgress]]) -> Iterator[FetchProgress]:
        """Bring an image here by `steps`, and record whose it is."""
        if login == NO_LOGIN:
            yield from steps()
            self._record(image, NO_LOGIN, None, ())
            return
        before = tuple(self._images.listed())
        pull = self._begin(image, login, before)
        try:
            yield from steps()
            self._record(image, login, pull, before)
        except ImageUnavailable:  # the registry refused, so nothing came
            self._db.write(lambda db: rows.end_pulls(db, [pull]))
            raise
        finally:  # an interrupted pull keeps its row: the engine may still complete it
            with self._lock:
                self._under_way.discard(pull)

    def _begin(self, image: str, login: int, before: Sequence[str]) -> int:
        """Write down that a pull begins, and settle those that were interrupted."""
        engine, now = self._engine(), self._clock()
        private = self._load()
        listed = self._images.listed()
        with self._lock:
            left = [pull for pull in private.pulls if pull.id not in self._under_way]
        brought = [(pull, found) for pull in left if (found := self._brought(pull))]
        over = [pull.id for pull, _ in brought] + [pull.id for pull in left if now - pull.began_at > _LEFT_S]
        alive = {*listed, *(each.base for each in listed.values())}
        gone = [right for right in private.rights if right.image_id not in alive]

        def change(db: Connection) -> int:
            for pull, image_id in brought:
                rows.allow(db, engine, image_id, NOBODY, registry_of(pull.image))
            rows.end_pulls(db, over)
            rows.forget(db, gone)
            made = rows.begin_pull(db, engine, image, login, before, now)
            with self._lock:
                self._under_way.add(made)
            return made

        return self._db.write(change)

    def _record(self, image: str, login: int, pull: int | None, before: Collection[str]) -> None:
        """Record the images that a pull brought, for its login.

        An image that is private already is allowed only if its registry confirms it: engines find what they have by
        its digest, and don't ask. Raises ImageUnavailable if the registry refuses."""
        private = self._load()
        if login == NO_LOGIN and not private.rights and not private.pulls:
            return
        others = Private(private.rights, [each for each in private.pulls if each.id != pull])
        owners = self._owners(others)
        found = set(self._images.identify(image)[:1])
        if login != NO_LOGIN:
            found |= self._new_in(repository_of(image), before)
        granted = [each for each in found if not owners.get(each) and each not in before and login != NO_LOGIN]
        asked = [each for each in found if owners.get(each) and not owners[each] & {login, NO_LOGIN}]
        if asked and self._confirms(image, login, private, asked):
            granted += asked
        engine, registry = self._engine(), registry_of(image)

        def change(db: Connection) -> None:
            for image_id in granted:
                rows.allow(db, engine, image_id, login, registry)
            rows.end_pulls(db, [] if pull is None else [pull])

        self._db.write(change)

    def _confirms(self, image: str, login: int, private: Private, ids: Collection[str]) -> bool:
        """Ask the registry of an image whether this login may read it there.

        Only a registry that is trusted with these images is asked: another one could say anything."""
        registry = registry_of(image)
        trusted = {DOCKER_HUB, *self._logins.named_by_admins()}
        trusted |= {right.host for right in private.rights if right.image_id in ids}
        if registry not in trusted:
            return False
        self._images.confirm(image, self._logins.credentials(image, login))
        return True

    def _new_in(self, repository: str, before: Collection[str]) -> set[str]:
        return {
            image_id
            for image_id, each in self._images.listed().items()
            if image_id not in before and repository in map(repository_of, each.names)
        }

    def _owners(self, private: Private) -> dict[str, set[int]]:
        """Return the logins that may use each private image.

        What a pull has brought is private before its result is recorded. That gives nobody a right."""
        owners = private.owners()
        for pull in private.pulls:
            if brought := self._brought(pull):
                owners.setdefault(brought, set()).add(NOBODY)
        return owners

    def _brought(self, pull: Pull) -> str:
        """Return the id of the image that a pull has brought, as far as its name tells."""
        now = next(iter(self._images.identify(pull.image)), "")
        return now if now not in pull.before else ""

    def _load(self) -> Private:
        engine = self._engine()
        with self._db.read() as db:
            return rows.load(db, engine)
