"""Interactive work in running jobs: commands, terminals, ports and notebooks."""

from __future__ import annotations

from schedulearn.api.feature import Command, Feature

FEATURE = Feature(
    "interactive",
    routers=["terminals.routes:router", "ports.routes:router"],
    worker="worker:Interactive.of",
    middleware="ports.proxy:PortProxy",
    commands={
        "exec": Command("commands.exec:exec_", "Runs a command in a running job, beside its own: a shell..."),
        "shell": Command("commands.shell:shell", "A shell on GPUs of the cluster: a job that begins for it..."),
        "forward": Command("commands.forward:forward", "Makes a port of a running job's container a port of this..."),
        "open": Command("commands.ports:open_", "Prints a link that opens a port of a job in the browser,..."),
        "notebook": Command("commands.ports:notebook", "JupyterLab on GPUs of the cluster: a job that opens in the..."),
        "tensorboard": Command(
            "commands.ports:tensorboard", "TensorBoard over the outputs of a job that has ended: a..."
        ),
    },
)
