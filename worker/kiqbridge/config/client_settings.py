"""The rows of the table that clients read, wherever they are: in a worker, in the enqueue function, alone."""

from typing import Any, Final

from kiqbridge.config.parsers import whole_number, wire_profile, words
from kiqbridge.config.setting import Rows
from kiqbridge.redaction import DEFAULT_KEYS
from kiqbridge.wire.raw_job import DEFAULT_MAX_PAYLOAD_BYTES

CLIENT_SETTINGS: Final = Rows("worker", "client", "function")

REDIS_URL: Final = CLIENT_SETTINGS.add(
    name="redis_url",
    default="redis://localhost:6379/0",
    env=("REDIS_URL",),
    provider="REDIS_PROVIDER",
    help="address of Redis, of its sentinels (redis+sentinel://HOST,HOST/SERVICE) or of a cluster "
    "(redis+cluster://HOST,HOST); REDIS_PROVIDER names another variable that holds it",
)

REDIS_SECRET_ARN: Final = CLIENT_SETTINGS.add(
    name="redis_secret_arn",
    env=("REDIS_SECRET_ARN",),
    help="ARN or name of a secret of Secrets Manager that holds the address of Redis, or what REDIS_URL lacks of it "
    "(docs/connections.md); read at run time, and again when the server refuses the password",
)

REDIS_SSM_PARAMETER: Final = CLIENT_SETTINGS.add(
    name="redis_ssm_parameter",
    env=("REDIS_SSM_PARAMETER",),
    help="name or ARN of an SSM parameter (SecureString), in place of REDIS_SECRET_ARN",
)

REDIS_IAM_USER: Final = CLIENT_SETTINGS.add(
    name="redis_iam_user",
    env=("REDIS_IAM_USER",),
    help="user of ElastiCache that logs in with IAM; the address is REDIS_URL, rediss:// and without a password",
)

REDIS_IAM_CACHE: Final = CLIENT_SETTINGS.add(
    name="redis_iam_cache",
    env=("REDIS_IAM_CACHE",),
    help="id of the replication group for which REDIS_IAM_USER logs in",
)

REDIS_SETTINGS: Final = tuple(CLIENT_SETTINGS)
"""Where Redis is, and what a connection logs in with."""

NAMESPACE: Final = CLIENT_SETTINGS.add(
    name="namespace",
    help="prefix of all keys, as redis-namespace has it; in a cluster with braces, such as {app}",
)


def _fleets(value: Any, source: str) -> Any:
    if not value:
        return None
    from kiqbridge.config.fleets_setting import parse_fleets  # noqa: PLC0415 - few have fleets

    return parse_fleets(value, source)


FLEETS: Final = CLIENT_SETTINGS.add(
    name="fleets",
    parse=_fleets,
    default={},
    help="for each name a namespace, queues (globs, the first that matches) and, for another server, url, provider or "
    "secret_arn: jobs are pushed to the fleet of their queue (docs/scaling.md); in the environment as JSON",
)

FLEET: Final = CLIENT_SETTINGS.add(
    name="fleet",
    help="name of the fleet whose namespace and address hold here; commands have --fleet for it",
)

PROFILE: Final = CLIENT_SETTINGS.add(
    name="profile",
    parse=wire_profile,
    default="7",
    env=("KIQBRIDGE_WIRE_PROFILE",),
    help="7 = times as float seconds, 8 = integer milliseconds, auto = 8 while only Sidekiq 8 or "
    "later is seen",
)

MAX_PAYLOAD_BYTES: Final = CLIENT_SETTINGS.add(
    name="max_payload_bytes",
    parse=whole_number(
        "max_payload_bytes",
        0,
        hint="write how many bytes the text of a job may have, 0 for no limit",
    ),
    default=DEFAULT_MAX_PAYLOAD_BYTES,
    help="bytes of a job's text above which clients refuse to push it, and workers put it into the dead "
    "set without reading it; 0 = no limit",
)

REDACT: Final = CLIENT_SETTINGS.add(
    name="redact",
    parse=words("redact"),
    default=list(DEFAULT_KEYS),
    help="names of arguments and attributes whose values no log line or message shows; replaces "
    "the default; in the environment with commas between them",
)

WAIT_REPLICAS: Final = CLIENT_SETTINGS.add(
    name="wait_replicas",
    parse=whole_number(
        "wait_replicas",
        0,
        hint="write how many replicas shall confirm a push, 0 to wait for none",
    ),
    default=0,
    help="how many replicas must confirm a push; 0 = none",
    read_by=("client", "function"),
)

ENCRYPTION_KEYS: Final = CLIENT_SETTINGS.add(
    name="encryption_keys",
    help="keys for encrypted arguments, NUMBER:BASE64 with commas between them; the highest number encrypts, all "
    "decrypt (docs/encryption.md). A secret; workers read the environment only, as clients do",
    read_by=("client", "function"),
)

ENCRYPTION_KEYS_FILE: Final = CLIENT_SETTINGS.add(
    name="encryption_keys_file",
    help="file that holds what KIQBRIDGE_ENCRYPTION_KEYS would, also with one key a line; read when a job needs it",
    read_by=("client", "function"),
)
