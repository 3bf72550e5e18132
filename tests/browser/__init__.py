"""A package: fixtures of its scope last as long as its tests, and no longer."""
