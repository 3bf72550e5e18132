"""Files, names, commands and routes that the docs mention exist."""

import ast
import re
import shlex
from functools import cache
from itertools import takewhile
from pathlib import Path

import click
from apis import openapi, sockets
from matrices import each

from schedulearn.main import cli

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "worker_images/README.md", "ui/README.md", "bench/data/README.md")),
    *ROOT.glob("docs/**/*.md"),
]
FOLDERS = "api|bench|docs|metrics|requirements|scheduler|scripts|src|tests|ui|worker_images"
RUN = r"\.venv/bin/|docker compose exec(?: --?\w+)* schedulearn |docker compose run(?: --?\w+)* |"
every_page = each(PAGES, "page")


def paths(page: Path) -> set[str]:
    """Paths from the root of the repository that a page names, in its prose and its code."""
    found = re.findall(rf"(?<![\w./-])((?:{FOLDERS})/[\w./-]*)", page.read_text())
    return {path.rstrip(".") for path in found}


def names(page: Path) -> set[tuple[str, str]]:
    """`path: name` or `path: Class.name`, as pairs."""
    return set(re.findall(r"`([\w/.-]+\.\w+): ([\w.]+)`", page.read_text()))


@cache
def defined(file: Path) -> set[str]:
    """What a Python file defines at its top, and in its classes as `Class.name`; other files: all their words."""
    if file.suffix != ".py":
        return set(re.findall(r"\w+", file.read_text()))
    found: set[str] = set()

    def take(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            match node:
                case ast.ClassDef(name=name, body=inner):
                    found.add(prefix + name)
                    take(inner, f"{prefix}{name}.")
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    found.add(prefix + name)
                case ast.Assign(targets=targets):
                    found.update(prefix + target.id for target in targets if isinstance(target, ast.Name))
                case ast.AnnAssign(target=ast.Name(id=name)):
                    found.add(prefix + name)

    take(ast.parse(file.read_text()).body, "")
    return found


@every_page
def test_paths_exist(page: Path) -> None:
    missing = [path for path in sorted(paths(page)) if not (ROOT / path).exists() and not (page.parent / path).exists()]
    assert missing == [], f"{page.relative_to(ROOT)} names what is not there"


@every_page
def test_names_exist(page: Path) -> None:
    missing = [
        f"{path}: {name}"
        for path, name in sorted(names(page))
        if not (ROOT / path).is_file() or name not in defined(ROOT / path)
    ]
    assert missing == [], f"{page.relative_to(ROOT)} names what is not there"


def test_names_are_found_at_all() -> None:
    assert len(names(ROOT / "docs/architecture.md")) > 40
    assert "SchedulerLoop.turn" in defined(ROOT / "scheduler/control/loop.py")
    assert "SchedulerLoop.no_such" not in defined(ROOT / "scheduler/control/loop.py")


def commands(page: Path) -> list[list[str]]:
    """Calls of `schedulearn` in code, as words; `a | b` after a call are other ways to go on, as in docs/cli.md."""
    text = re.sub(r"\\\n\s*", " ", page.read_text())
    code = [line.split("  #")[0] for line in re.findall(r"^    (.*)", text, re.M)] + re.findall(r"`([^`\n]+)`", text)
    calls = []
    for line in code:
        match = re.match(rf"(?:{RUN})schedulearn ((?!\.\.\.).+)", line)
        if match:
            calls.append(list(takewhile(lambda word: word not in ("|", "--", ">", "<", "#"), shlex.split(match[1]))))
    return calls


def fault_of(words: list[str]) -> str:
    """What is wrong with a call; empty if its command and options exist."""
    command: click.Command = cli
    context = click.Context(cli)
    for index, word in enumerate(words):
        if not isinstance(command, click.Group):
            break
        found = command.get_command(context, word) if re.fullmatch(r"[a-z]+(-[a-z]+)*", word) else None
        if found is None:
            return "" if index and not word.isalpha() else f"there is no command {word}"
        command = found
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    given = [word.strip("[]").partition("=")[0] for word in words if re.match(r"\[?-{1,2}[a-z]", word)]
    return ", ".join(f"{command.name} has no {option}" for option in given if option not in known)


@every_page
def test_commands_exist(page: Path) -> None:
    assert [(call, fault) for call in commands(page) if (fault := fault_of(call))] == []


def test_commands_are_found_at_all() -> None:
    assert len(commands(ROOT / "docs/cli.md")) > 20
    assert fault_of(["submit", "--no-such", "x"])
    assert fault_of(["no-such"])


@every_page
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    asked = re.findall(r"(?:^    |`)make ([a-z][\w-]*)", page.read_text(), re.M)
    assert set(asked) <= targets


@every_page
def test_measurements_exist(page: Path) -> None:
    [listed] = re.findall(r"^MODULES = \{(.*?)^\}", (ROOT / "bench/__main__.py").read_text(), re.M | re.S)
    known = set(re.findall(r'"(\w+)":', listed)) | {"NAME"}
    calls = re.findall(r"python -m bench ([\w =]+)|make bench ARGS=(\w+)", page.read_text())
    assert {word.partition("=")[0] for a, b in calls for word in (a or b).split()} <= known
    for module in re.findall(r"python -m (bench\.[\w.]+\w)", page.read_text()):
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file()


@cache
def routes() -> tuple[str, ...]:
    return (*openapi()["paths"], *sockets(), "/api/v1/openapi.json")


@every_page
def test_routes_exist(page: Path) -> None:
    named = re.findall(r"(?<![\w.:])(/api/v1/[\w/:{}.-]*\w)", page.read_text())
    known = [re.sub(r"\{\w+(:\w+)?\}", "[^/]+", path) for path in routes()]
    assert [path for path in named if not any(re.fullmatch(pattern, path.rstrip("{}")) for pattern in known)] == []


def slugs(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub and the editors make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@every_page
def test_anchors_exist(page: Path) -> None:
    targets = [target.partition("#") for target in re.findall(r"\]\((?!http)([^)\s]+#[^)\s]+)\)", page.read_text())]
    assert [
        f"{path}#{anchor}" for path, _, anchor in targets if anchor not in slugs(page.parent / path if path else page)
    ] == []
