"""The command `schedulearn`, put together from the core and all features."""

from __future__ import annotations

from schedulearn.api.cli import Cli
from schedulearn.features import FEATURES

cli = Cli(FEATURES)


def main() -> None:
    """Run the command line."""
    cli.run()


if __name__ == "__main__":
    main()
