"""Check of a registry login before it is stored, by an engine that would pull with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from schedulearn.scheduler.errors import InvalidError, RuntimeFault
from schedulearn.scheduler.hosts.agent import HostAgent
from schedulearn.scheduler.runtimes.contract import RegistryLogin

_HOSTS = 2
"""Maximum hosts that try to ask the registry, one after another."""


class LoginCheck(NamedTuple):
    accepted: bool
    """False: the registry could not be asked."""
    message: str


def check_login(agents: Mapping[str, HostAgent], login: RegistryLogin) -> LoginCheck:
    """Ask the registry whether it accepts a login. Raises InvalidError if it refuses.

    Engines ask it, because they know its certificates and proxies, and reach no more by this than by a pull."""
    able = [
        agent for agent in agents.values()
        if agent.status.observation is not None and agent.status.facts is not None and agent.status.facts.isolates
    ]  # fmt: skip
    why = "no host with Docker answers"
    for agent in able[:_HOSTS]:
        try:
            refusal = agent.runtime.images.check_login(login)
        except RuntimeFault as fault:
            why = f"on {agent.host_id}: {fault}"
            continue
        if refusal:
            raise InvalidError(f"{login.registry} refuses this login: {refusal.rstrip('.')}", field="password")
        return LoginCheck(True, f"{login.registry} accepts it.")
    return LoginCheck(False, f"{login.registry} could not be asked, {why.rstrip('.')}. The login is stored unchecked.")
