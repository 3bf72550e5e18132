"""Reader of JSON and YAML files with jobs or other objects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from schedulearn.api.client.client import Json

if TYPE_CHECKING:
    import yaml

LARGEST = 32 << 20
LARGEST_YAML = 1 << 20
"""Maximum characters of YAML, which is read 100 times more slowly than JSON."""
_CORE_TYPES = {
    "bool": (r"^(?:true|True|TRUE|false|False|FALSE)$", [*"tTfF"]),
    "int": (r"^[-+]?(?:0|[1-9][0-9]*)$", [*"-+0123456789"]),
    "float": (r"^[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$", [*"-+.0123456789"]),
    "null": (r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
}


def read_jobs(text: str, name: str) -> Json | list[Json]:
    """Return the job or the jobs in `text`. A `name` that ends with .json holds JSON only. Raises ValueError."""
    found = read_values(text, name)
    if isinstance(found, dict) or (isinstance(found, list) and all(isinstance(job, dict) for job in found)):
        return found
    raise ValueError("it must hold one job (an object: keys with values) or a list of jobs")


def read_values(text: str, name: str) -> Any:
    if len(text) > LARGEST:
        raise ValueError(f"it has more than {LARGEST >> 20} MiB: submit it in parts")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if name.endswith(".json") or text.lstrip().startswith(("{", "[")):
            raise ValueError(f"it is not JSON: {error}") from error
        return read_yaml(text)


def read_yaml(text: str) -> Any:
    """Parse YAML 1.2: `no` and `2030-01-01` are text. Raises ValueError.

    Aliases are refused, since a few lines of them can stand for gigabytes. Duplicate keys are refused too."""
    if len(text) > LARGEST_YAML:
        raise ValueError(f"it is not JSON, and YAML may have at most {LARGEST_YAML >> 20} MiB")
    import yaml

    try:
        return yaml.load(text, _loader())  # noqa: S506 - a loader of plain values
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ValueError(f"it is neither JSON nor YAML: {' '.join(str(error).split())}") from error


def _loader() -> type[yaml.SafeLoader]:
    import re

    import yaml

    class YamlLoader(yaml.SafeLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                problem = "aliases (*name) are not supported: write the value out"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=parent.start_mark if parent else None)
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys: set[str] = set()
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode) or key.value in keys:
                    twice = isinstance(key, yaml.ScalarNode)
                    problem = f"the key {key.value!r} is there twice" if twice else "a key is text"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                keys.add(str(key.value))
                key.tag = "tag:yaml.org,2002:str"
            return super().construct_mapping(node, deep)

    YamlLoader.yaml_implicit_resolvers = {}
    for kind, (pattern, first) in _CORE_TYPES.items():
        YamlLoader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(pattern), first)
    return YamlLoader
