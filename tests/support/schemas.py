"""Checks an answer against the OpenAPI document, more strictly than JSON Schema does: a key that is not described is
wrong, and so is a word of the schema that this does not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}
_BOUNDS = {f"{most}{what}" for most in ("min", "max") for what in ("Items", "Length", "Properties", "imum")}
_BOUNDS |= {"exclusiveMinimum", "exclusiveMaximum", "pattern", "format"}
"""Of requests: a job that is shown as POST takes it was held to them when it was stored."""
_SAYS_NOTHING = {"title", "description", "default", *_BOUNDS}


def faults(document: Mapping[str, Any], schema: Mapping[str, Any], value: object, where: str = "$") -> list[str]:
    """What of `value` is not as `schema` says, each with its place."""
    if "$ref" in schema:
        return faults(document, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], value, where)
    if "anyOf" in schema:
        found = [faults(document, choice, value, where) for choice in schema["anyOf"]]
        return [] if [] in found else min(found, key=len)
    if unknown := schema.keys() - _SAYS_NOTHING - {"type", "properties", "required", "additionalProperties", "items",
                                                   "enum", "const", "propertyNames"}:  # fmt: skip
        raise AssertionError(f"{where}: this check does not know {unknown}")
    if "const" in schema and value != schema["const"]:
        return [f"{where}: {value!r} is not {schema['const']!r}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{where}: {value!r} is none of {schema['enum']}"]
    if "type" in schema and not _is(value, schema["type"]):
        return [f"{where}: {value!r} is no {schema['type']}"]
    if isinstance(value, list):
        items = schema.get("items", {})
        return [fault for i, item in enumerate(value) for fault in faults(document, items, item, f"{where}[{i}]")]
    return _faults_of_object(document, schema, value, where) if isinstance(value, dict) else []


def _faults_of_object(
    document: Mapping[str, Any], schema: Mapping[str, Any], value: dict[str, object], where: str
) -> list[str]:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", "properties" not in schema)
    found = [f"{where}: {key} is missing" for key in schema.get("required", ()) if key not in value]
    for key, item in value.items():
        found += faults(document, schema.get("propertyNames", {}), key, f"{where}: the name {key}")
        inner = properties.get(key, others)
        if inner is False:
            found.append(f"{where}: {key} is not described")
        elif inner is not True:
            found += faults(document, inner, item, f"{where}.{key}")
    return found


def _is(value: object, kind: str) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def check_answer(document: Mapping[str, Any], method: str, path: str, answer: httpx.Response) -> None:
    """`path`: as the document has it. Fails for a status, a media type or a body that is not described."""
    responses = document["paths"][path][method.lower()]["responses"]
    described = responses.get(str(answer.status_code))
    if described is None:
        assert answer.status_code >= 400, f"{method} {path}: {answer.status_code} is not described"
        described = responses["default"]
    kind = answer.headers.get("content-type", "").partition(";")[0]
    content = described.get("content", {})
    if not content:
        assert not kind.endswith("json"), f"{method} {path}: {kind} is not described"
        return
    assert kind in content, f"{method} {path}: {kind} is none of {list(content)}"
    if kind == "application/x-tar":
        return
    assert faults(document, content[kind]["schema"], answer.json()) == [], f"{method} {path}"
