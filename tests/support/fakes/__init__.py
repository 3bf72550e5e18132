"""In-memory runtimes, held to the contract tests of real ones (tests/runtimes)."""
