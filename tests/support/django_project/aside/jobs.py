"""Found by `manage.py kiqbridge worker` where SHOP_APPLICATIONS names this application."""

from django.db import connection
from shop.models import Order

from kiqbridge import job


@job(name="ShopPlaceAside", queue="mailers", pool="process")
def place_aside(name: str) -> None:
    Order.objects.create(name=name)
    assert connection.vendor == "sqlite"
