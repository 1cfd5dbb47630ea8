# examples/flask_app.py
"""Enqueues from Flask: `flask --app examples/flask_app.py run`."""

from flask import Flask
from kiqbridge import RedisUnavailable, configure
from receipts import send_receipt


def create_app() -> Flask:
    configure()  # REDIS_URL, or the address as an argument
    app = Flask(__name__)

    @app.post("/orders/<int:order_id>/receipt")
    def request_receipt(order_id: int) -> tuple[dict[str, str | None], int]:
        return {"jid": send_receipt.perform_async(order_id)}, 202

    @app.errorhandler(RedisUnavailable)
    def away(_error: RedisUnavailable) -> tuple[dict[str, str], int]:
        return {"error": "nothing was enqueued; try again"}, 503

    return app
