"""Jobs under limits; what they do goes to a file in MARKS."""

import asyncio
import json
import os
import time
from pathlib import Path

from kiqbridge import job
from kiqbridge.flow import limiter

FOLDER = Path(os.environ["MARKS"])
ERP = limiter.concurrent("erp", 4, wait_timeout_s=0, put_off_s=3600)
HOLD = limiter.concurrent("hold", 2, wait_timeout_s=60)


def note(**seen: object) -> None:
    with (FOLDER / "seen").open("a") as file:
        file.write(json.dumps(seen) + "\n")


@job(name="OnThread", limiter=ERP)
def on_thread() -> None:
    note(event="ran", where="thread")


@job(name="OnLoop", limiter=ERP)
async def on_loop() -> None:
    await asyncio.sleep(0)
    note(event="ran", where="loop")


@job(name="InProcess", pool="process", limiter=lambda: ERP)
def in_process() -> None:
    note(event="ran", where="process")


@job(name="Inside")
def inside() -> None:
    with ERP.within_limit():
        note(event="ran", where="inside")


@job(name="Holds", limiter=HOLD)
def holds(number: int) -> None:
    note(event="holds", number=number)
    while not (FOLDER / "release").exists():
        time.sleep(0.02)
    note(event="ended", number=number)
