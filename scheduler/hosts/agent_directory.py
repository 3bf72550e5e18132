"""Directory of the current hosts.

`Fleet` changes it. Code that talks to hosts finds their agents here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.task import ObservedTask
from schedulearn.scheduler.hosts.agent import HostAgent
from schedulearn.scheduler.telemetry.resources import WatchedHost


class AgentDirectory:
    """Agents by host id.

    The mapping is replaced as a whole when a host comes or goes. A reader can keep using the one it has."""

    def __init__(self) -> None:
        self._agents: Mapping[str, HostAgent] = {}
        self.most = 0
        """Maximum number of hosts that existed at the same time."""

    def agents(self) -> Mapping[str, HostAgent]:
        return self._agents

    def replace(self, agents: Mapping[str, HostAgent]) -> None:
        self.most = max(self.most, len(agents))
        self._agents = agents

    def reachable(self) -> set[str]:
        """Return the hosts that answer."""
        return {host_id for host_id, agent in self._agents.items() if agent.status.observation is not None}

    def facts(self) -> dict[str, HostFacts | None]:
        """Return the facts of each host; None: not known."""
        return {host_id: agent.status.facts for host_id, agent in self._agents.items()}

    def watched(self) -> dict[str, WatchedHost]:
        """Return the resource readings and the tasks of each host that answers."""
        found = {}
        for host_id, agent in self._agents.items():
            if (observation := agent.status.observation) is not None:
                found[host_id] = WatchedHost(agent.runtime.resources, observation.tasks)
        return found

    def tasks_on(self, host_id: str) -> Sequence[ObservedTask] | None:
        """Return the service's tasks on a host; None while the host does not answer."""
        agent = self._agents.get(host_id)
        observation = agent.status.observation if agent is not None else None
        return observation.tasks if observation is not None else None
