"""REST API, event streams, command line and web page."""

if __name__ != "schedulearn.api":
    raise ImportError("import schedulearn.api, not api: the folder is mapped to that name by setup.py")
