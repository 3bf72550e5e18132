"""The command `schedulearn`, whose service predicts nothing: what predictions cost is measured against it."""

from __future__ import annotations

from schedulearn.api.cli import main
from schedulearn.scheduler.outlook import Outlook

if __name__ == "__main__":
    Outlook.start = lambda self: None  # type: ignore[method-assign]
    main()
