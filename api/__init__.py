"""The HTTP edge: REST, events, command line, page."""

if __name__ != "schedulearn.api":
    raise ImportError("import schedulearn.api, not api: the folder is mapped to that name by setup.py")
