"""Generator of the synchronous client.

It writes `sync_NAME.py` beside each source: the same code without `async` and `await`. Git ignores these files.
setup.py, `make setup`, `make lint` and the tests run it.
"""

from __future__ import annotations

import io
import os
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("api/client/calls.py", "features/*/client.py", "src/schedulearn/clients.py")
NAMES = {
    "async": "",
    "await": "",
    "asyncio": "time",
    "async_client": "client",
    "aclose": "close",
    "aread": "read",
    "aiter_bytes": "iter_bytes",
    "aiter_text": "iter_text",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
}


def synchronous(code: str) -> str:
    """Return code without `async` and `await`, with the synchronous names of what it uses."""
    lines = code.splitlines(keepends=True)
    for token in reversed([*tokenize.generate_tokens(io.StringIO(code).readline)]):
        if token.type == tokenize.NAME:
            name = NAMES.get(token.string, token.string.removeprefix("Async"))
            (row, start), (_, end) = token.start, token.end
            line = lines[row - 1]
            lines[row - 1] = line[:start] + name + line[end if name else end + 1 :]
    text = "".join(lines)
    # Imports of a source become imports of the file that is made from it.
    text = re.sub(r"(from schedulearn\.api\.client\.)(calls import)", r"\1sync_\2", text)
    return re.sub(r"(from schedulearn\.features\.\w+\.)(client import)", r"\1sync_\2", text)


def write() -> None:
    """Write each file that differs, in one step: other processes may read it meanwhile."""
    for source in sorted(found for pattern in SOURCES for found in ROOT.glob(pattern)):
        code = f"# Made from {source.name} by scripts/unasync.py: edit that.\n{synchronous(source.read_text('utf-8'))}"
        target = source.with_name(f"sync_{source.name}")
        if not target.exists() or target.read_text("utf-8") != code:
            unfinished = target.with_suffix(f".{os.getpid()}")
            unfinished.write_text(code, "utf-8")
            unfinished.replace(target)


if __name__ == "__main__":
    write()
