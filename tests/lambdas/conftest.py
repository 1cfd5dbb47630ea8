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
    return load_app


@pytest.fixture
def app(load):
    return load()


@pytest.fixture
def invoke(app):
    return lambda event, context=None: app.lambda_handler(event, context or Context())
