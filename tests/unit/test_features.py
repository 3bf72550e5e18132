"""The records of features: every name leads somewhere."""

from __future__ import annotations

import click
import pytest
from fastapi import APIRouter

from schedulearn.api.feature import Feature, load
from schedulearn.features import FEATURES
from schedulearn.scheduler.store.db import TABLE_COUNT
from schedulearn.scheduler.store.models import METADATA


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_what_a_feature_names_is_there(feature: Feature) -> None:
    assert all(isinstance(router, APIRouter) and router.routes for router in feature.load_routers())
    for name, command in feature.commands.items():
        found = load(feature.package, command.place)
        assert isinstance(found, click.Command)
        assert found.name == name
    worker = feature.load_worker()
    assert worker is None or callable(worker)
    assert feature.middleware is None or callable(load(feature.package, feature.middleware))


def test_all_tables_are_known_once_those_of_features_are_loaded() -> None:
    assert len(METADATA.tables) == TABLE_COUNT
