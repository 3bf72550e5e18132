"""Commands of Slurm, kubectl and docker, and what does the same here."""

from __future__ import annotations

COUNTERPARTS = {
    # Slurm
    "sacct": "ls --all",
    "sacctmgr": "quota ls",
    "salloc": "shell",
    "sattach": "logs -f JOB",
    "sbatch": "run -- COMMAND",
    "scancel": "cancel JOB",
    "scontrol": "show JOB",
    "sinfo": "hosts ls",
    "sprio": "ls",
    "squeue": "ls",
    "sreport": "usage",
    "srun": "run -- COMMAND",
    "sstat": "top JOB",
    # kubectl
    "apply": "submit FILE",
    "attach": "logs -f JOB",
    "config": "contexts ls",
    "cordon": "hosts cordon HOST",
    "create": "submit FILE",
    "delete": "cancel JOB",
    "describe": "show JOB",
    "drain": "hosts drain HOST",
    "get": "ls",
    "nodes": "hosts ls",
    "port-forward": "forward JOB PORT",
    "scale": "resubmit JOB --gpus N",
    "uncordon": "hosts uncordon HOST",
    "use-context": "contexts use NAME",
    # docker
    "context": "contexts ls",
    "images": "hosts disk HOST",
    "info": "top",
    "inspect": "show JOB",
    "kill": "cancel JOB",
    "ps": "ls",
    "pull": "hosts pull HOST IMAGE",
    "restart": "resubmit JOB",
    "start": "resubmit JOB",
    "stats": "top JOB",
    "stop": "cancel JOB",
    "system": "hosts disk HOST",
    "volume": "data ls",
    # any shell
    "jobs": "ls",
    "list": "ls",
    "nvidia-smi": "top",
    "queue": "ls",
    "status": "show JOB",
    "tail": "logs -f JOB",
}
"""Name -> words after `schedulearn`. Words in capitals stand for values."""
