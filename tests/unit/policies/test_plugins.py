"""Users' own policies, from entry points."""

from importlib.metadata import EntryPoint

import pytest

from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.policies import plugins


def test_an_entry_point_that_can_not_be_loaded_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint("mine", "no_such_module:Policy", plugins.GROUP)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [broken])
    with pytest.raises(InvalidError, match="entry point mine can't be loaded: ModuleNotFoundError"):
        plugins.load_policies()
