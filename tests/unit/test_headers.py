"""Headers that come twice count as they always did."""

from __future__ import annotations

from starlette.datastructures import Headers

from schedulearn.api.edge.headers import first_values

RAW = [
    (b"host", b"127.0.0.1"),
    (b"origin", b"http://127.0.0.1"),
    (b"host", b"evil"),
    (b"origin", b"null"),
    (b"x", b"\xe9"),
]


def test_the_first_of_a_name_counts_as_for_starlette() -> None:
    values, headers = first_values({"headers": RAW}), Headers(raw=RAW)
    assert values == {name: headers[name] for name in headers} == {**values, "host": "127.0.0.1", "x": "\xe9"}
