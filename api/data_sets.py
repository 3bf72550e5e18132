"""The data sets that the operator declared, for those who submit jobs."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from schedulearn.api.answers import JsonResponse
from schedulearn.api.state import cluster_of

router = APIRouter(prefix="/api/v1", tags=["jobs"])


class DataSetOut(BaseModel):
    name: str = Field(description="as jobs name it in `mounts`")
    path: str = Field(description="on every host")


@router.get("/data-sets", response_model=list[DataSetOut])
async def data_sets(request: Request) -> Response:
    found = cluster_of(request).loop.data_sets
    return JsonResponse([{"name": name, "path": path} for name, path in sorted(found.items())])
