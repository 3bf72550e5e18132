"""The names that users' own code relies on, wherever they live inside."""

import subprocess
import sys

import schedulearn
from schedulearn import policy
from schedulearn.sync_clients import Client


def test_what_authors_of_policies_need_is_in_one_place() -> None:
    assert {"HostView", "JobView", "Snapshot", "Plan", "Explanation", "Policy", "make_policy", "plan_faults"} <= {
        *policy.__all__
    }
    snapshot = policy.Snapshot(now=0.0, seed=0, hosts=(policy.HostView("h", 2),), jobs=(), last_host=None)
    plan = policy.make_policy("fifo").allocate(snapshot)
    assert policy.plan_faults(snapshot, plan) == []
    assert policy.Explanation("code", "A sentence.").code == "code"


def test_the_client_is_there_and_loads_nothing_before_it_is_asked_for() -> None:
    assert schedulearn.Client is Client
    assert all(getattr(schedulearn, name) for name in schedulearn.__all__)
    program = "import sys, schedulearn; print(sorted({'httpx', 'pydantic', 'schedulearn.api'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_the_client_needs_httpx_and_nothing_else_of_the_service() -> None:
    """What the extra `client` installs."""
    program = (
        "import sys, schedulearn; schedulearn.AsyncClient(), schedulearn.Client(), schedulearn.Job; "
        "service = {'pydantic', 'yaml', 'fastapi', 'sqlalchemy', 'docker'}; "
        "print(sorted(service & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
