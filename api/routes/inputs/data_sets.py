"""The data sets that the operator declared, for those who submit jobs."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import Field

from schedulearn.api.answers.model import AnswerModel
from schedulearn.api.state import cluster_of

router = APIRouter(prefix="/api/v1", tags=["jobs"])


class DataSetOut(AnswerModel):
    name: str = Field(description="name for the key `mounts` of jobs")
    path: str = Field(description="path on every host")


@router.get("/data-sets")
async def data_sets(request: Request) -> list[DataSetOut]:
    found = cluster_of(request).loop.data_sets
    return [DataSetOut(name=name, path=path) for name, path in sorted(found.items())]
