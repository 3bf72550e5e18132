"""`/metrics` for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.state import cluster_of

router = APIRouter(tags=["metrics"])


@router.get("/metrics", response_class=Response)
@needs(Access.METRICS)
def metrics(request: Request) -> Response:
    from prometheus_client import CONTENT_TYPE_LATEST

    from schedulearn.api.prometheus import exposition  # the library loads at the first scrape, not at every start

    return Response(exposition(cluster_of(request)), media_type=CONTENT_TYPE_LATEST)
