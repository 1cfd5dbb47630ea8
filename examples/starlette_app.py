# examples/starlette_app.py
"""Enqueues from Starlette: `uvicorn --app-dir examples starlette_app:app`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kiqbridge import configure
from kiqbridge.web import create_app
from receipts import send_receipt
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route


@asynccontextmanager
async def lifespan(_app: Starlette) -> AsyncIterator[None]:
    client = configure()  # REDIS_URL, or the address as an argument
    yield
    client.close()


async def request_receipt(request: Request) -> JSONResponse:
    jid = await send_receipt.aperform_async(request.path_params["order_id"])
    return JSONResponse({"jid": jid}, status_code=202)


app = Starlette(
    lifespan=lifespan,
    routes=[
        Route("/orders/{order_id:int}/receipt", request_receipt, methods=["POST"]),
        Mount("/kiqbridge", create_app(role="viewer")),
    ],
)
