"""The rows of the table that clients read, wherever they are: in a worker, in the enqueue function, alone."""

from typing import Final

from kiqbridge.config.parsers import text, whole_number, wire_profile, words
from kiqbridge.config.setting import Setting
from kiqbridge.redaction import DEFAULT_KEYS
from kiqbridge.wire.raw_job import DEFAULT_MAX_PAYLOAD_BYTES

_ALL: Final = ("worker", "client", "function")

REDIS_URL: Final = Setting(
    name="redis_url",
    parse=text("redis_url"),
    default="redis://localhost:6379/0",
    env=("REDIS_URL",),
    provider="REDIS_PROVIDER",
    help="address of Redis, or of its sentinels (redis+sentinel://HOST,HOST/SERVICE); REDIS_PROVIDER names "
    "another variable that holds it",
    read_by=_ALL,
)

NAMESPACE: Final = Setting(
    name="namespace",
    parse=text("namespace"),
    default="",
    env=("KIQBRIDGE_NAMESPACE",),
    help="prefix of all keys, as redis-namespace has it",
    read_by=_ALL,
)

PROFILE: Final = Setting(
    name="profile",
    parse=wire_profile,
    default="7",
    env=("KIQBRIDGE_WIRE_PROFILE",),
    help="7 = times as float seconds, 8 = integer milliseconds, auto = 8 while only Sidekiq 8 or "
    "later is seen",
    read_by=_ALL,
)

MAX_PAYLOAD_BYTES: Final = Setting(
    name="max_payload_bytes",
    parse=whole_number(
        "max_payload_bytes",
        0,
        hint="write how many bytes the text of a job may have, 0 for no limit",
    ),
    default=DEFAULT_MAX_PAYLOAD_BYTES,
    env=("KIQBRIDGE_MAX_PAYLOAD_BYTES",),
    help="bytes of a job's text above which clients refuse to push it, and workers put it into the dead "
    "set without reading it; 0 = no limit",
    read_by=_ALL,
)

REDACT: Final = Setting(
    name="redact",
    parse=words("redact"),
    default=list(DEFAULT_KEYS),
    env=("KIQBRIDGE_REDACT",),
    help="names of arguments and attributes whose values no log line or message shows; replaces "
    "the default; in the environment with commas between them",
    read_by=_ALL,
)

WAIT_REPLICAS: Final = Setting(
    name="wait_replicas",
    parse=whole_number(
        "wait_replicas",
        0,
        hint="write how many replicas shall confirm a push, 0 to wait for none",
    ),
    default=0,
    env=("KIQBRIDGE_WAIT_REPLICAS",),
    help="how many replicas must confirm a push; 0 = none",
    read_by=("client", "function"),
)

CLIENT_SETTINGS: Final = (REDIS_URL, NAMESPACE, PROFILE, MAX_PAYLOAD_BYTES, REDACT, WAIT_REPLICAS)
