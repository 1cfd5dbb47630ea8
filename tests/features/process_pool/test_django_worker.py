"""`manage.py kiqbridge worker` of a real Django project: threads, the event loop and child processes."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from support.django_shop import PROJECT
from support.processes import ChildProcess

from kiqbridge import Client

pytestmark = [pytest.mark.slow, pytest.mark.any_server]

NAMES = ("ShopPlace", "ShopPlaceInBackground", "ShopPlaceAside")


def test_a_worker_of_the_project_performs_its_jobs(tmp_path, redis_url, redis):
    database = tmp_path / "shop.db"
    environment = {
        "SHOP_DATABASE": str(database),
        "SHOP_APPLICATIONS": "aside",
        "REDIS_URL": redis_url,
    }
    manage = [sys.executable, str(PROJECT / "manage.py")]
    subprocess.run(
        [*manage, "migrate", "--run-syncdb", "--verbosity=0"],
        env=os.environ | environment,
        check=True,
    )
    client = Client(redis_url)
    for name in NAMES:
        client.push({"class": name, "args": [name], "queue": "mailers"})
    client.close()

    def placed():
        with closing(sqlite3.connect(database)) as connection:
            return {name for [name] in connection.execute("select name from shop_order")}

    with ChildProcess([*manage, "kiqbridge", "worker"], env=environment, cwd=tmp_path) as worker:
        worker.wait_for(lambda: placed() == set(NAMES), 60, "an order by each job")
        assert worker.stop() == 0

    assert redis.zcard("retry") == redis.zcard("dead") == 0
