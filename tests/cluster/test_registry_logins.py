"""Images that were pulled with a login, on several hosts."""

from __future__ import annotations

from pathlib import Path

from clusters import FakeCluster, spec, wait_for
from fakes.runtime import FakeRuntime

from schedulearn.scheduler.core.needs import Image
from schedulearn.scheduler.errors import ImageUnavailable
from schedulearn.scheduler.runtimes.contract import RegistryLogin
from schedulearn.scheduler.store.people.registry_logins import Holder

IMAGE = "reg.lab/private:1"


def test_a_private_image_is_copied_to_another_host_only_for_those_with_its_login(tmp_path: Path) -> None:
    here = FakeRuntime("local", images={"img"})
    there = FakeRuntime("h2", images={"img"}, fetchable={IMAGE: []})
    with FakeCluster(tmp_path, runtime=here, others={"h2": there}) as c:
        c.add("h2")
        c.cluster.registry_logins.put(Holder("ada"), RegistryLogin("reg.lab", "ada", "password"), 0.0)
        c.cluster.fleet.set_state("local", "cordoned")
        [first] = c.submit(spec(container_image=IMAGE, user="ada"))
        c.wait(first, "running")
        c.cluster.fleet.set_state("local", "active")
        c.cluster.fleet.set_state("h2", "cordoned")
        [bens] = c.submit(spec(container_image=IMAGE, user="ben"))
        assert c.wait(bens, "failed").reason == "image_unavailable"
        assert not here.images.holds(IMAGE)
        [adas] = c.submit(spec(container_image=IMAGE, user="ada"))
        c.wait(adas, "running")
        assert here.images.holds(IMAGE)
        here.fail_next("images.confirm", ImageUnavailable("denied"))
        [again] = c.submit(spec(container_image=IMAGE, user="ben"))
        assert c.wait(again, "failed").message == "denied", "the copy is private, too"


def test_an_image_whose_name_was_moved_to_a_private_one_is_not_started(tmp_path: Path) -> None:
    """What the agent knew of the image is old: it asks again at the start."""
    with FakeCluster(tmp_path, runtime=FakeRuntime("local", images={"img", IMAGE})) as c:
        [free] = c.submit(spec(container_image=IMAGE, user="ben"))
        c.wait(free, "running")
        agent = c.cluster.agents["local"]
        assert agent.has(Image(IMAGE))
        c.cluster.registry_logins.put(Holder("ada"), RegistryLogin("reg.lab", "ada", "password"), 0.0)
        assert c.runtime.images.present is not None
        c.runtime.images.present.discard(IMAGE)
        c.runtime.images.fetchable[IMAGE] = []
        [adas] = c.submit(spec(container_image=IMAGE, user="ada"))
        c.wait(adas, "running")
        agent._needs.note(Image(IMAGE), True)
        del c.runtime.images.fetchable[IMAGE]
        c.runtime.calls.clear()
        [bens] = c.submit(spec(container_image=IMAGE, user="ben"))
        wait_for(lambda: ("images.fetch", IMAGE) in c.runtime.calls, what="a pull for Ben")
        assert ("start", f"schedulearn-{bens}-1-0") not in c.runtime.calls
