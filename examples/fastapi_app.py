# examples/fastapi_app.py
"""Enqueues from FastAPI: `uvicorn --app-dir examples fastapi_app:app`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from kiqbridge import configure
from kiqbridge.web import create_app
from receipts import send_receipt


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    client = configure()  # REDIS_URL, or the address as an argument
    yield
    client.close()


app = FastAPI(lifespan=lifespan)
app.mount("/kiqbridge", create_app(role="viewer"))


@app.post("/orders/{order_id}/receipt", status_code=202)
async def request_receipt(order_id: int) -> dict[str, str | None]:
    return {"jid": await send_receipt.aperform_async(order_id)}
