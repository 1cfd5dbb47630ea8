"""The enqueue function in a warm environment of its own for each test."""

import logging

import pytest
from support.enqueue_function import ENVIRONMENT, Context, load_app


@pytest.fixture
def environment(monkeypatch, redis_url):
    for name, value in {**ENVIRONMENT, "REDIS_URL": redis_url}.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.fixture
def load(environment):
    """Start a new warm environment, with the variables and the standard output of the moment."""
    loaded = []

    def load():
        forget(loaded)
        loaded.append(load_app())
        return loaded[0]

    yield load
    forget(loaded)


def forget(loaded):
    while loaded:  # its logger keeps the standard output under which it was made
        logging.Logger.manager.loggerDict.pop(loaded.pop().SERVICE)


@pytest.fixture
def app(load):
    return load()


@pytest.fixture
def invoke(app):
    return lambda event, context=None: app.lambda_handler(event, context or Context())
