"""Jobs under limits; what they do goes to a file in MARKS."""

import asyncio

from support.noting import hold, note

from kiqbridge import job
from kiqbridge.flow import limiter

ERP = limiter.concurrent("erp", 4, wait_timeout_s=0, put_off_s=3600)
HOLD = limiter.concurrent("hold", 2, wait_timeout_s=60)


@job(name="OnThread", limiter=ERP)
def on_thread() -> None:
    note("ran", where="thread")


@job(name="OnLoop", limiter=ERP)
async def on_loop() -> None:
    await asyncio.sleep(0)
    note("ran", where="loop")


@job(name="InProcess", pool="process", limiter=lambda: ERP)
def in_process() -> None:
    note("ran", where="process")


@job(name="Inside")
def inside() -> None:
    with ERP.within_limit():
        note("ran", where="inside")


@job(name="Holds", limiter=HOLD)
def holds(number: int) -> None:
    note("holds", number=number)
    hold()
    note("ended", number=number)
