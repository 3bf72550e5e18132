"""Rights to images of one engine: kills at each side effect, pulls that meet, and registries that lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedulearn.scheduler.core.registries import NO_LOGIN
from schedulearn.scheduler.errors import ImageUnavailable, RuntimeFault
from schedulearn.scheduler.hosts.image_access import ImageAccess
from schedulearn.scheduler.runtimes.contract import FetchProgress, ListedImage, RegistryLogin
from schedulearn.scheduler.store.db import Database, sqlite_url
from schedulearn.scheduler.store.people import accounts, groups
from schedulearn.scheduler.store.people.registry_logins import MAX_LOGINS, Holder, RegistryLogins
from schedulearn.scheduler.store.people.secrets import Secrets

IMAGE = "reg.lab/private:1"


class Engine:
    """Names of images with their ids. `confirmed`: users whom registries let read images that are here."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.bases: dict[str, str] = {}
        self.confirmed: set[str] = set()

    def identify(self, image: str) -> tuple[str, ...]:
        found = self.names.get(image, image if image in self.names.values() else "")
        return () if not found else (found, self.bases[found]) if found in self.bases else (found,)

    def listed(self) -> dict[str, ListedImage]:
        return {
            each: ListedImage(tuple(name for name, its in self.names.items() if its == each), self.bases.get(each, ""))
            for each in self.names.values()
        }

    def confirm(self, image: str, login: RegistryLogin | None = None) -> None:
        if (login.username if login else "") not in self.confirmed:
            raise ImageUnavailable("no basic auth credentials")


class Lab:
    def __init__(self, folder: Path) -> None:
        self.db = Database(sqlite_url(folder))
        self.logins = RegistryLogins(self.db, Secrets(self.db, folder))
        self.engine = Engine()
        self.access = self.opened()

    def opened(self) -> ImageAccess:
        """As a service that has just started."""
        return ImageAccess(self.db, self.logins, self.engine, lambda: "engine", lambda: 0.0)  # type: ignore[arg-type]

    def login(self, user: str, registry: str = "reg.lab") -> int:
        self.logins.put(Holder(user), RegistryLogin(registry, user, "password"), 0.0)
        return self.logins.find(user, f"{registry}/image")

    def pull(self, image: str, login: int, image_id: str) -> None:
        list(self.begin(image, login, image_id))

    def begin(self, image: str, login: int, image_id: str) -> Iterator[FetchProgress]:
        """A pull in three steps. The image is there after the second."""

        def steps() -> Iterator[FetchProgress]:
            yield FetchProgress(0.0, "begun")
            self.engine.names[image] = image_id
            yield FetchProgress(100.0, "there")

        return self.access.fetch(image, login, steps)

    def may(self, image: str, *logins: int) -> list[bool]:
        return [self.access.allowed_id(image, login) is not None for login in logins]

    def rows(self) -> Sequence[Any]:
        with self.db.read() as conn:
            return conn.exec_driver_sql("SELECT image_id, login_id FROM private_image ORDER BY 1, 2").all()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    yield made
    made.db.close()


def test_without_private_images_nothing_is_asked_or_stored(lab: Lab) -> None:
    lab.pull("python:3.12", NO_LOGIN, "free")
    assert lab.access.allowed_id("python:3.12", 7) == ""
    assert lab.rows() == []


@pytest.mark.parametrize("steps", [1, 2])
def test_a_service_that_was_killed_during_a_pull_leaves_a_private_image(lab: Lab, steps: int) -> None:
    ada = lab.login("ada")
    pull = lab.begin(IMAGE, ada, "secret")
    for _ in range(steps):
        next(pull)
    lab.engine.names[IMAGE] = "secret"  # the engine completes it
    lab.access = lab.opened()
    assert lab.may(IMAGE, NO_LOGIN, ada) == [False, False], "its owner pulls again, too"
    assert lab.may("secret", NO_LOGIN) == [False]
    ben = lab.login("ben", "other.lab")
    lab.pull("other.lab/own:1", ben, "own")  # settles what was left
    assert lab.may(IMAGE, NO_LOGIN, ben) == [False, False]
    lab.engine.confirmed = {"ada"}
    lab.pull(IMAGE, ada, "secret")
    assert lab.may(IMAGE, NO_LOGIN, ada, ben) == [False, True, False]


def test_no_other_name_leads_to_a_private_image(lab: Lab) -> None:
    ada = lab.login("ada")
    lab.pull(IMAGE, ada, "secret")
    lab.engine.names |= {"alias": "secret", "layer": "over"}
    lab.engine.bases["over"] = "secret"
    for name in (IMAGE, "secret", "alias", "layer", "over"):
        assert lab.may(name, NO_LOGIN, ada) == [False, True], name


def test_a_registry_that_no_admin_named_frees_nothing(lab: Lab) -> None:
    """Ben's own registry may answer with any digest: the engine has the image, and does not ask for its content."""
    ada = lab.login("ada")
    lab.pull(IMAGE, ada, "secret")
    lab.engine.confirmed = {"", "ben"}
    ben = lab.login("ben", "evil.lab")
    lab.pull("evil.lab/x:1", NO_LOGIN, "secret")
    lab.pull("evil.lab/x:1", ben, "secret")
    assert lab.may("evil.lab/x:1", NO_LOGIN, ben) == [False, False]
    held = lab.begin("evil.lab/y:1", ben, "later")  # it waits for Ada's next image
    next(held)
    lab.pull("reg.lab/private:2", ada, "later")
    list(held)
    assert lab.may("evil.lab/y:1", NO_LOGIN, ben, ada) == [False, False, True]
    lab.logins.put(Holder(), RegistryLogin("evil.lab", "ben", "password"), 0.0)
    lab.pull("evil.lab/x:1", ben, "secret")
    assert lab.may("evil.lab/x:1", ben) == [True], "an admin trusts it"


def test_a_pull_that_meets_another_gives_no_right_to_its_image(lab: Lab) -> None:
    ada, ben = lab.login("ada"), lab.login("ben", "evil.lab")
    of_ada, of_ben = lab.begin(IMAGE, ada, "secret"), lab.begin("evil.lab/x:1", ben, "secret")
    next(of_ben)
    next(of_ada)
    next(of_ada)  # the image is there, its row is not
    list(of_ben)
    assert lab.may("evil.lab/x:1", ben, NO_LOGIN) == [False, False]
    lab.engine.confirmed = {"ada"}
    list(of_ada)
    assert lab.may(IMAGE, ada, ben, NO_LOGIN) == [True, False, False]


def test_the_registry_frees_an_image_that_it_gives_to_all(lab: Lab) -> None:
    ada = lab.login("ada")
    lab.pull(IMAGE, ada, "open")
    with pytest.raises(ImageUnavailable):
        lab.pull(IMAGE, NO_LOGIN, "open")
    assert lab.may(IMAGE, NO_LOGIN) == [False]
    lab.engine.confirmed = {""}
    lab.pull(IMAGE, NO_LOGIN, "open")
    assert lab.may(IMAGE, NO_LOGIN, 99) == [True, True]
    lab.pull(IMAGE, ada, "open")
    assert lab.may(IMAGE, NO_LOGIN) == [True], "it stays free"


def test_what_was_there_before_stays_free(lab: Lab) -> None:
    ada = lab.login("ada")
    lab.engine.names["built/here:1"] = "local"
    lab.pull("reg.lab/copy:1", ada, "local")
    assert lab.may("built/here:1", NO_LOGIN) == [True]
    aborted = lab.begin("reg.lab/copy:2", ada, "local")
    next(aborted)
    next(aborted)
    aborted.close()
    assert lab.may("built/here:1", NO_LOGIN) == [True]


def test_a_new_login_has_no_rights_of_the_old_one(lab: Lab) -> None:
    ada = lab.login("ada")
    lab.pull(IMAGE, ada, "secret")
    again = lab.login("ada")
    assert again != ada
    assert lab.may(IMAGE, again) == [False]
    with pytest.raises(RuntimeFault, match="was removed or changed meanwhile"):
        lab.logins.credentials(IMAGE, ada)


def test_rows_go_with_their_images(lab: Lab) -> None:
    ada = lab.login("ada")
    lab.pull(IMAGE, ada, "old")
    lab.pull(IMAGE, ada, "new")
    lab.pull("reg.lab/other:1", ada, "other")
    assert lab.rows() == [("new", ada), ("other", ada)]


def test_the_own_login_is_before_that_of_the_group_and_of_everybody(lab: Lab) -> None:
    lab.db.write(lambda db: groups.set_group(db, "vision", groups.Bounds(), 0.0))
    for user in ("ada", "ben"):
        lab.db.write(lambda db, user=user: accounts.add_account(db, user, accounts.Role.USER, 0.0))  # type: ignore[misc]
        lab.db.write(lambda db, user=user: groups.add_member(db, "vision", user, 0.0))  # type: ignore[misc]
    for holder in (Holder("ada"), Holder(group="vision"), Holder()):
        lab.logins.put(holder, RegistryLogin("reg.lab", str(holder), "password"), 0.0)

    def used(user: str, image: str = IMAGE) -> str | None:
        login = lab.logins.credentials(image, lab.logins.find(user, image))
        return login.username if login else None

    assert [used(user) for user in ("ada", "ben", "eve", "")] == ["ada", "group vision", "everybody", "everybody"]
    assert used("ada", "reg.lab.evil/private:1") is None
    assert used("ada", "reg.lab:5000/private:1") is None
    lab.db.write(lambda db: groups.remove_member(db, "vision", "ben", 0.0))
    lab.logins.committed()
    assert used("ben") == "everybody"
    retired = lab.db.write(lambda db: accounts.remove_account(db, "ada", 0.0))
    lab.db.write(lambda db: groups.remove_group(db, "vision", 0.0))
    lab.logins.committed()
    assert (used("ada"), used(retired)) == ("everybody", "ada"), "for jobs of theirs that go on"
    assert [login.username for login in lab.logins.list_for("ben")] == ["everybody"]


def test_logins_of_one_holder_are_bounded(lab: Lab) -> None:
    for number in range(MAX_LOGINS):
        lab.login("ada", f"reg{number}.lab")
    with pytest.raises(Exception, match="the maximum"):
        lab.login("ada", "one-more.lab")
    lab.login("ada", "reg0.lab")  # a change of one is none more
    assert len(lab.logins.list_for("ada")) == MAX_LOGINS
