"""Its tasks."""

from celery import chord, shared_task
from celery.utils.log import get_task_logger

from shop.app import app
from shop.notebook import note

logger = get_task_logger(__name__)


@app.task
def add(x, y):
    note("add", x + y)
    return x + y


@app.task(name="shop.tasks.send_mail")
def send_mail(user_id, template="welcome"):
    logger.info("mail %s to %s", template, user_id)
    note("mail", f"{template} to {user_id}")


@app.task(bind=True, max_retries=3, default_retry_delay=0.05)
def fetch(self, url):
    """Fails once, and asks for another try by itself."""
    note("fetch", f"try {self.request.retries}")
    if self.request.retries < 1:
        try:
            raise ConnectionError(url)
        except ConnectionError as error:
            raise self.retry(exc=error, countdown=0.05)


@app.task(autoretry_for=(TimeoutError,), retry_backoff=0.01, max_retries=5)
def poll(name):
    """Fails once with an error that is tried again by itself."""
    note("poll", name)
    if not note.has_seen(f"poll-{name}"):
        raise TimeoutError(name)


@app.task(autoretry_for=(TimeoutError,))
def broken():
    """Fails with an error that is not tried again."""
    note("broken", "once")
    raise ValueError("final")


@shared_task
def order(number, lines=()):
    """Enqueues others."""
    note("order", f"{number} with {len(lines)}")
    add.delay(number, len(lines))
    send_mail.apply_async((number,), {"template": "order"})


@app.task(bind=True, autoretry_for=(OSError,), retry_backoff=True, max_retries=2)
def down(self):
    """Fails each time with an error that is tried again."""
    note("down", f"try {self.request.retries}")
    raise TimeoutError


@app.task(bind=True, max_retries=1)
def give_up(self):
    """Asks for another try, without an error."""
    raise self.retry(countdown=1)


@app.task(bind=True)
def describe(self, x, y=0):
    """What it knows of itself."""
    me = self.request
    return [me.id, me.retries, me.is_eager, me.called_directly, [x, y]]


@app.task
def total(amounts):
    """What an order costs."""
    note("total", sum(amounts))
    return sum(amounts)


@app.task
def nightly():
    """Beat calls it."""
    note("nightly", "swept")


def bill(prices):
    """Add a fee to each price, side by side, then all of them up, and a tip."""
    return (chord([add.s(price, 1) for price in prices], total.s()) | add.s(5)).delay()


def ship(number):
    """Fetch, then send a mail that needs nothing of that."""
    return (fetch.si("https://example.com") | send_mail.si(number, "sent")).delay()
