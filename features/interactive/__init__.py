"""Interactive work in running jobs: commands, terminals, ports and notebooks."""

from __future__ import annotations

from schedulearn.api.feature import CommandEntry, CommandGroup, Feature

FEATURE = Feature(
    "interactive",
    routers=["terminals.routes:router", "ports.routes:router"],
    worker="worker:Interactive.of",
    middleware="ports.proxy:PortProxy",
    commands={
        "exec": CommandEntry(
            "commands.exec:exec_", "Run a command in a running job; without one, a shell.", CommandGroup.INSIDE
        ),
        "shell": CommandEntry("commands.shell:shell", "Start a shell on GPUs of the cluster.", CommandGroup.INSIDE),
        "forward": CommandEntry(
            "commands.forward:forward", "Forward a local port to a port of a running job.", CommandGroup.INSIDE
        ),
        "open": CommandEntry(
            "commands.ports:open_", "Print a link that opens a port of a job in the browser.", CommandGroup.INSIDE
        ),
        "notebook": CommandEntry(
            "commands.ports:notebook", "Start JupyterLab on GPUs and open it in the browser.", CommandGroup.INSIDE
        ),
        "tensorboard": CommandEntry(
            "commands.ports:tensorboard", "Start TensorBoard on the outputs of a finished job.", CommandGroup.INSIDE
        ),
    },
)
