"""The application on a real, empty server."""

import pytest
from support.pages import Browser
from support.running_system import System, fill_processes

from kiqbridge.api import Operator, open_operator
from kiqbridge.web import create_app


@pytest.fixture
def operator(redis_url) -> Operator:
    operator = open_operator(redis_url, by="ann@example.com")
    yield operator
    operator.client.close()


@pytest.fixture
def browser(operator) -> Browser:
    """An administrator's."""
    return Browser(create_app(operator=operator, role="admin", environment="test"))


@pytest.fixture
def viewer(operator) -> Browser:
    """Of somebody who may look only."""
    return Browser(create_app(operator=operator, role="viewer", environment="test"))


@pytest.fixture
def system(redis) -> System:
    """Processes of Python and Ruby, with what they run and hold."""
    system = System(server=redis)
    fill_processes(system, None)
    return system
