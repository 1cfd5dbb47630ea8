"""Several databases of one server as shards."""

import json
from dataclasses import dataclass

import redis as redis_py

from kiqbridge import Client
from kiqbridge.config.shards import shards
from kiqbridge.store.shards import open_shards

QUEUES = {"mail": ["mail", "mail-*"], "fast": ["critical"], "rest": ["*"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharded:
    """Shards by name: where they are, and a raw client of each."""

    setting: dict[str, dict[str, object]]
    raw: dict[str, redis_py.Redis]

    @property
    def environ(self) -> dict[str, str]:
        return {"KIQBRIDGE_SHARDS": json.dumps(self.setting)}

    def client(self, **options: object) -> Client:
        return Client(pool=open_shards(shards(self.setting, "test"), {}), **options)


def sharded(urls: dict[str, str], queues: dict[str, list[str]] = QUEUES) -> Sharded:
    setting = {name: {"url": urls[name], "queues": queues[name]} for name in queues}
    return Sharded(
        setting=setting,
        raw={name: redis_py.Redis.from_url(url, socket_timeout=60) for name, url in urls.items()},
    )
