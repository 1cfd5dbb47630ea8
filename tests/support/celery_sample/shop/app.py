"""The application of a small shop, as its team wrote it for Celery."""

import os

from celery import Celery
from celery.schedules import crontab

app = Celery("shop", broker=os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0"))
app.conf.update(
    task_serializer="json",
    accept_content=["json"],
    task_acks_late=True,
    timezone="UTC",
    task_routes=([("shop.tasks.send_*", {"queue": "mail"})],),
)
app.conf.beat_schedule = {"n": {"task": "shop.tasks.nightly", "schedule": crontab(hour=4, minute=30)}}
app.conf.task_always_eager = os.environ.get("SHOP_EAGER") == "1"
