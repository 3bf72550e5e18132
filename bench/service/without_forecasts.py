"""The command `schedulearn`, whose service predicts nothing: what predictions cost is measured against it."""

from __future__ import annotations

from schedulearn.main import main
from schedulearn.scheduler.control.forecaster import Forecaster

if __name__ == "__main__":
    Forecaster.start = lambda self: None  # type: ignore[method-assign]
    main()
