"""Decides which job gets how many GPUs and where, and makes it so."""

if __name__ != "schedulearn.scheduler":
    raise ImportError("import schedulearn.scheduler, not scheduler: the folder is mapped to that name by setup.py")
