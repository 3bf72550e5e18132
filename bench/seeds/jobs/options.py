"""What all of these jobs are told, and where they find the examples whose models and data they train."""

import argparse
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[3] / "worker_images/examples"


def read_options(example):
    sys.path.insert(0, str(EXAMPLES / example))
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64, help="of all workers together")
    parser.add_argument("--samples", type=int, default=1437, help="of an epoch")
    return parser.parse_args()
