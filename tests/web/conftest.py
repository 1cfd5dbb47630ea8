"""The application on a real, empty server."""

import pytest

from kiqbridge.api import Operator, open_operator


@pytest.fixture
def operator(redis_url) -> Operator:
    operator = open_operator(redis_url, by="ann@example.com")
    yield operator
    operator.client.close()
