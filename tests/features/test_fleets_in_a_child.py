"""A child process that runs jobs pushes to the fleets of its worker."""

import json

from kiqbridge.config.client_settings import RedisAccess
from kiqbridge.features.fleets.fleets import read_fleets
from kiqbridge.features.process_pool.messages import ChildSettings


def test_fleets_survive_the_way_to_a_child():
    given = {"mail": {"namespace": "mail", "queues": ["mail", "mail-*"]}}
    environ = {"KIQBRIDGE_FLEETS": json.dumps(given), "KIQBRIDGE_FLEET": "mail"}
    settings = ChildSettings(
        require=(),
        log_level="info",
        log_format="json",
        redis=RedisAccess(url="redis://host/0"),
        namespace="mail",
        fleets=read_fleets(environ),
        profile="7",
        timeout_s=25.0,
    )

    assert ChildSettings.from_message(json.loads(json.dumps(settings.to_message()))) == settings
