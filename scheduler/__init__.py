"""Scheduler: allocates GPUs of hosts to jobs, and runs the jobs there."""

if __name__ != "schedulearn.scheduler":
    raise ImportError("import schedulearn.scheduler, not scheduler: the folder is mapped to that name by setup.py")
