# examples/receipts.py
"""Jobs of the examples: `kiqbridge worker -r examples/receipts.py`."""

from kiqbridge import job


@job(queue="mailers")
def send_receipt(order_id: int) -> None:
    print(f"receipt for order {order_id}")
