"""Measurements of GPUs and jobs."""

if __name__ != "schedulearn.metrics":
    raise ImportError("import schedulearn.metrics, not metrics: the folder is mapped to that name by setup.py")
