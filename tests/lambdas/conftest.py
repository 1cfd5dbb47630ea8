"""The enqueue function in a warm environment of its own for each test."""

import pytest
from support.enqueue_function import ENVIRONMENT, Context, load_app


@pytest.fixture
def environment(monkeypatch, redis_url):
    for name, value in {**ENVIRONMENT, "REDIS_URL": redis_url}.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.fixture
def load(environment):
    """Start a new warm environment, with the variables of the moment."""
    made = []

    def load():
        app = load_app()
        made.append(app.handler)
        return app

    yield load
    for handler in made:
        if handler._enqueuer is not None:  # else its socket stays open until it is collected
            pusher = handler._enqueuer.pusher
            for each in getattr(pusher, "pushers", {"": pusher}).values():
                each.client.close()  # of fleets all


@pytest.fixture
def app(load):
    return load()


@pytest.fixture
def invoke(app):
    return lambda event, context=None: app.lambda_handler(event, context or Context())


@pytest.fixture
def mapped(environment, load, tmp_path):
    """The function with mappings: `mapped(text)` makes an `invoke`."""

    def mapped(text):
        path = tmp_path / "mappings.yml"
        path.write_text(text, encoding="utf-8")
        environment.setenv("KIQBRIDGE_MAPPINGS", str(path))
        app = load()
        return lambda event: app.lambda_handler(event, Context())

    return mapped
