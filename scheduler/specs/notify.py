"""Keys of jobs and accounts that name recipients and events of notices."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from schedulearn.scheduler.core.notices import MAX_MAIL, ME, NoticeEvent, is_channel, mail_address


def _as_list(value: Any) -> Any:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def _recipient(text: str) -> str:
    if "://" in text:
        raise ValueError(
            "an address with `://` may hold a secret, and jobs are shown to others: give it a name by "
            "`schedulearn notify add NAME`, and use the name"
        )
    if (mail := mail_address(text)) is not None:
        return mail
    if text != ME and not is_channel(text):
        raise ValueError(
            f"{text[:80]!r} is neither `me`, an e-mail address, nor the name of one of your addresses "
            "(letters, digits, '.', '_' and '-')"
        )
    return text


def _once(values: list[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


Recipients = Annotated[
    list[Annotated[str, Field(max_length=MAX_MAIL + len("mailto:")), AfterValidator(_recipient)]],
    BeforeValidator(_as_list, json_schema_input_type=list[str] | str),
    AfterValidator(_once),
]
NoticeEvents = Annotated[
    list[NoticeEvent], BeforeValidator(_as_list, json_schema_input_type=list[NoticeEvent] | str), AfterValidator(_once)
]
