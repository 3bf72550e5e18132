"""Open terminals, kept shells and logins at ports of one service."""

from __future__ import annotations

from schedulearn.features.interactive.ports.sessions import PortSessions
from schedulearn.features.interactive.terminals.job_terminals import JobTerminals
from schedulearn.features.interactive.terminals.kept import KeptShells
from schedulearn.scheduler.cluster import Cluster


class Interactive:
    """Worker of the feature. It has no thread of its own."""

    def __init__(self, terminals: JobTerminals) -> None:
        self.terminals = terminals
        self.shells = KeptShells()
        self.port_sessions = PortSessions()

    @classmethod
    def of(cls, cluster: Cluster) -> Interactive:
        found = cls(JobTerminals(cluster.db, cluster.running_tasks, cluster.timing))
        cluster.loop.unused_since = found.terminals.unused_since
        return found

    def start(self) -> None:
        """Do nothing: connections come from clients."""

    def close(self) -> None:
        """End all shells. Called from the event loop's thread."""
        self.shells.end_all()
