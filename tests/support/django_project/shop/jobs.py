"""Found by `manage.py kiqbridge worker`."""

from django.db import connection

from kiqbridge import job
from shop.models import Order


@job(name="ShopPlace", queue="mailers")
def place(name: str) -> None:
    Order.objects.create(name=name)


@job(name="ShopPlaceInBackground", queue="mailers")
async def place_in_background(name: str) -> None:
    await Order.objects.acreate(name=name)


@job(name="ShopPlaceAside", queue="mailers", pool="process")
def place_aside(name: str) -> None:
    Order.objects.create(name=name)
    assert connection.vendor == "sqlite"
