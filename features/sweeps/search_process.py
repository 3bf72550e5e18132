"""Child process with scikit-learn that chooses the next trial of a search.

It reads a question as JSON from standard input, and writes the answer to standard output.
"""

from __future__ import annotations

import json
import sys

from schedulearn.features.sweeps.models.configurations import CandidatePoint, TrialOutcome, best_of
from schedulearn.features.sweeps.models.search import next_trial


def main() -> None:
    sys.stdout.write(answer_to(sys.stdin.read()))


def answer_to(question: str) -> str:
    asked = json.loads(question)
    points = [CandidatePoint(*each) for each in asked["points"]]
    tried = {index: None if outcome is None else TrialOutcome(*outcome) for index, outcome in asked["tried"]}
    found = next_trial(points, asked["prices"], tried, asked["goal"], asked["most"], asked["seed"])
    return json.dumps({**found._asdict(), "found": best_of(tried, asked["goal"])})


if __name__ == "__main__":
    main()
