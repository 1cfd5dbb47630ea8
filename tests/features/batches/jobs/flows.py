"""Jobs of batches and chains that note when they ran."""

import os
import time

from kiqbridge import job

MARKS = os.environ["MARKS"]


@job(name="FlowStep")
def flow_step(name: str) -> None:
    target = os.open(MARKS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(target, f"{name}\n".encode())
    os.close(target)
    time.sleep(0.02)  # the work: it is killed within
