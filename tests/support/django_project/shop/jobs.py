"""Found by `manage.py kiqbridge worker`."""

from kiqbridge import job
from shop.models import Order


@job(name="ShopPlace", queue="mailers")
def place(name: str) -> None:
    Order.objects.create(name=name)


@job(name="ShopPlaceInBackground", queue="mailers")
async def place_in_background(name: str) -> None:
    await Order.objects.acreate(name=name)
