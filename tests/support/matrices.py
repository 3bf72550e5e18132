"""Many small cases as one test."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest


def each(cases: Iterable[Any], *names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call the test with each case, then fail with all that failed, each with its case.

    As `pytest.mark.parametrize`, but one test in the report, with one set-up. `names`: the arguments that a case gives;
    with several names a case is a tuple. All other arguments are fixtures, which the cases share.
    """
    listed = list(cases)

    def as_loop(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)

        @wraps(test)
        def looped(**fixtures: Any) -> None:
            assert listed, "there are no cases"
            failed = []
            for case in listed:
                given = dict(zip(names, case if len(names) > 1 else [case], strict=True))
                try:
                    test(**fixtures, **given)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"in case {', '.join(f'{name}={value!r:.200}' for name, value in given.items())}")
                    failed.append(error)
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(listed)} cases failed", failed)

        left = [parameter for name, parameter in signature.parameters.items() if name not in names]
        looped.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return looped

    return as_loop
