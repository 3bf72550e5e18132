"""What a training script imports. Python 3.8 syntax: job images are often old."""

if __name__ != "schedulearn.worker":
    raise ImportError("import schedulearn.worker, not " + __name__ + ": the folder is mapped to that name by setup.py")
