"""What looks like a secret in a command, a URL or a message is hidden, whatever its value; the rest stays as it is."""

from __future__ import annotations

import shlex
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.scheduler.core.planning.command_masking import MASK, hide_in_command, hide_in_text
from schedulearn.scheduler.core.planning.job_family import family_of

OPTIONS = ["--password", "--hf-token", "--wandb_key", "-secret", "--apiKey", "--db.passwd", "--AUTH", "--api-key"]
VARIABLES = ["WANDB_API_KEY", "MYSQL_PWD", "PASSPHRASE", "GITHUB_PAT", "JWT", "COOKIE", "DSN", "db.password", "hfToken"]
values = st.text(st.characters(codec="ascii", categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=20).map(
    lambda text: f"hunter2{text}hunter2"
)
in_urls = st.text("abcXYZ019.~!$&*+=:%_-", max_size=20).map(lambda text: f"hunter2{text}hunter2")


@given(name=st.sampled_from(OPTIONS), value=values, joined=st.booleans())
def test_the_value_of_a_secret_option_is_hidden(name: str, value: str, joined: bool) -> None:
    words = [f"{name}={value}"] if joined else [name, value]
    hidden = hide_in_command(shlex.join(["python", "train.py", *words, "--lr", "0.1"]))
    assert shlex.split(hidden) == [
        "python", "train.py", *([f"{name}={MASK}"] if joined else [name, MASK]), "--lr", "0.1",
    ]  # fmt: skip


@given(name=st.sampled_from(VARIABLES), value=values)
def test_so_is_that_of_a_variable_also_in_a_script(name: str, value: str) -> None:
    assert "hunter2" not in hide_in_command(shlex.join(["env", f"{name}={value}", "python"]))
    script = f"{name}={shlex.quote(value)} python train.py && echo --{name} {shlex.quote(value)} > out"
    if "'" not in value:  # that is quoted in pieces
        hidden = hide_in_command(shlex.join(["sh", "-c", script]))
        assert "hunter2" not in hidden
        assert "python train.py" in hidden


@given(password=in_urls, user=st.sampled_from(["", "ada", "ada%40lab"]))
def test_a_url_keeps_its_user_and_loses_its_password(password: str, user: str) -> None:
    url = f"postgres://{user}:{password}@db.lab/x"
    assert hide_in_text(f"can't reach {url}: refused") == f"can't reach postgres://{user}:{MASK}@db.lab/x: refused"
    assert hide_in_command(f"python x.py {url}") == f"python x.py postgres://{user}:{MASK}@db.lab/x"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("git clone https://ghp_abcdefghijklmnop@github.com/x/y", f"git clone https://{MASK}@github.com/x/y"),
        ("curl 'https://h/x?token=hunter2&page=3'", f"curl 'https://h/x?token={MASK}&page=3'"),
        ('curl -H "Authorization: Bearer hunter2hunter2"', f"curl -H 'Authorization: Bearer {MASK}'"),
        ("login hf_ABCDEFGHIJKLMNOPQRST now", f"login {MASK} now"),
        ("python t.py --token --verbose", "python t.py --token --verbose"),
        ("python t.py --max-tokens 4096 --tokenizer bert --key-dim 64 --monkey 3", None),
        ("python t.py   --lr 0.1 'a  b' --compat 3 --path /a --sort-by key", None),
        ("git clone ssh://git@github.com/x/y", None),
        ("python -m train --author ada --passes 3 --tokens x", None),
    ],
)
def test_what_is_hidden_and_what_is_not(command: str, shown: str | None) -> None:
    assert hide_in_command(command) == (command if shown is None else shown)


@given(text=st.text(max_size=200))
def test_hiding_twice_hides_no_more(text: str) -> None:
    once = hide_in_text(text)
    assert hide_in_text(once) == once


@given(
    words=st.lists(st.sampled_from([*OPTIONS, "A_KEY=x y", "https://a:b@h", "-c", "x", "--lr=3", "a 'b'"]), min_size=1)
)
def test_of_a_command_neither_and_the_family_is_the_same(words: list[str]) -> None:
    command = shlex.join(words)
    once = hide_in_command(command)
    assert hide_in_command(once) == once
    assert family_of("img", once) == family_of("img", command)


def test_a_family_names_no_secret() -> None:
    family = family_of("img", "env HF_TOKEN=hunter2 sh -c 'python t.py --password=hunter2' https://a:hunter2@h --lr 3")
    assert family == f"img env HF_TOKEN={MASK} sh -c python t.py --password={MASK} https://a:{MASK}@h --lr"


@pytest.mark.parametrize(
    "text", ["a" * 65536, "sk-" * 20000, "eyJ-" * 16000, "--key" + " " * 65536, "a://" * 16000, "x://" + "a@" * 30000,
             "--a-" * 16000, "key" * 20000, "'" * 65535, "A.b-" * 16000, "key=" * 16000],
    ids=lambda text: text[:6],
)  # fmt: skip
def test_no_text_takes_long(text: str) -> None:
    """Of 64 KiB, the most that a command has: what grows with its square takes minutes."""
    began = time.process_time()
    hide_in_command(text)
    assert time.process_time() - began < 20
