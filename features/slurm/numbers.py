"""Numbers of jobs, because Slurm's scripts expect numbers for ids."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable

from schedulearn.api.cli.common import CliSession
from schedulearn.api.client.client import ApiError, ClientError, Job, Json

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_DIGITS = 10
ARRAY = "slurm-array"
"""Label of the jobs of an array, with the number of the array."""
TASK = "slurm-task"
"""Label of a job of an array, with its index."""
_WORD = re.compile(r"(\d{1,16})(?:_(\d+|\[[\d,-]+\]))?")
_MAX_INDICES = 10_000


def number_of(job_id: str) -> int:
    """Return the number of a job: its id is that number in base 32."""
    number = 0
    for char in job_id:
        number = number * 32 + _ALPHABET.index(char)
    return number


def id_of_number(number: int) -> str:
    """Return the id of the job with this number."""
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(5 * (_DIGITS - 1), -1, -5))


def new_array() -> int:
    """Return a number for an array."""
    return 10**12 + secrets.randbelow(9 * 10**12)


def shown_number(job: Json) -> str:
    """Return the number as squeue shows it: `123`, or `100_7` in an array."""
    labels = job["labels"]
    return f"{labels[ARRAY]}_{labels[TASK]}" if ARRAY in labels and TASK in labels else str(number_of(job["id"]))


def find_jobs(session: CliSession, words: Iterable[str]) -> list[Job]:
    """Return the jobs for numbers such as `123`, `100_7`, `100_[1-3]`, for lists with commas, or for ids.

    The number of an array means all of its jobs. Raises ClientError."""
    parts = [part for word in words for part in re.split(r",(?![^\[]*\])", word) if part]
    return list({job.id: job for part in parts for job in _find(session, part)}.values())


def _find(session: CliSession, word: str) -> list[Job]:
    if not re.fullmatch(r"\d{11,16}(_.*)?|\d{1,9}(_.*)?", word):
        return [session.client.job(session.job_id(word))]
    match = _WORD.fullmatch(word)
    if match is None:
        raise ClientError(f"Invalid job id {word!r}: write 123, 123_4 or 123_[1-3]")
    number, index = int(match[1]), match[2]
    if index is None and number < 1 << 50:
        try:
            return [session.client.job(id_of_number(number))]
        except ApiError as error:
            if error.status != 404:
                raise
    found = [Job(job) for job in session.client.all_jobs(labels={ARRAY: str(number)})["items"]]
    found.sort(key=lambda job: job.id)
    # Anybody can set the label later, on a job of their own: the array is its first user's.
    found = [job for job in found if job["user"] == found[0]["user"]]
    if index is not None:
        wanted = {str(each) for each in indices(index.strip("[]"))}
        found = [job for job in found if job["labels"].get(TASK) in wanted]
    if not found:
        raise ClientError(f"Invalid job id specified: there is no job {word}")
    return found


def indices(text: str) -> list[int]:
    """Return the indices of `0-9`, `1,3,5` or `0-100:10`. Raises ValueError."""
    found: list[int] = []
    for span in text.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", span)
        if match is None or int(match[3] or 1) < 1:
            raise ValueError(f"{span!r} is not a range: write e.g. 0-9, 1,3,5 or 0-100:10")
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last - first > _MAX_INDICES * step:
            raise ValueError(f"has more than {_MAX_INDICES} tasks")
        found += range(first, last + 1, step)
    return found
