"""The rows of the table that clients read, wherever they are: in a worker, in the enqueue function, alone."""

from typing import Final

from kiqbridge.config.parsers import of_feature, whole_number, wire_profile, words
from kiqbridge.config.setting import Reader, Setting, rows
from kiqbridge.runtime.redaction import DEFAULT_KEYS
from kiqbridge.wire.raw_job import DEFAULT_MAX_PAYLOAD_BYTES


class ForClients:
    """Settings of clients."""

    READ_BY: Final[tuple[Reader, ...]] = ("worker", "client", "function")

    redis_url = Setting(
        default="redis://localhost:6379/0",
        env=("REDIS_URL",),
        provider="REDIS_PROVIDER",
        help="address of Redis, of sentinels (redis+sentinel://HOST,HOST/SERVICE) or of a cluster "
        "(redis+cluster://HOST,HOST); REDIS_PROVIDER names another variable that holds it",
    )

    redis_secret_arn = Setting(
        env=("REDIS_SECRET_ARN",),
        help="ARN or name of a secret of Secrets Manager with the address of Redis, or what REDIS_URL lacks of it "
        "(docs/how_to/connections.md); read again when the server refuses the password",
    )

    redis_ssm_parameter = Setting(
        env=("REDIS_SSM_PARAMETER",),
        help="name or ARN of an SSM parameter (SecureString), in place of REDIS_SECRET_ARN",
    )

    redis_iam_user = Setting(
        env=("REDIS_IAM_USER",),
        help="user of ElastiCache that logs in with IAM; REDIS_URL is rediss:// without a password",
    )

    redis_iam_cache = Setting(
        env=("REDIS_IAM_CACHE",),
        help="the cache for REDIS_IAM_USER: replicationgroup:NAME, or NAME alone, or serverlesscache:NAME",
    )

    namespace = Setting(help="prefix of all keys; in a cluster with braces, such as {app}")

    fleets = Setting(
        feature="fleets",
        parse=of_feature("fleets", "setting:parse_fleets"),
        default={},
        help="for each name a namespace, queues (globs) and, for another server, url, provider or secret_arn "
        "(docs/explanation/scaling.md); in the environment as JSON",
    )

    fleet = Setting(
        feature="fleets", help="fleet whose namespace and address are used; commands have --fleet"
    )

    profile = Setting(
        parse=wire_profile,
        default="7",
        env=("KIQBRIDGE_WIRE_PROFILE",),
        help="7 = times as float seconds, 8 = integer milliseconds, auto = 8 while only Sidekiq 8 or later is seen",
    )

    max_payload_bytes = Setting(
        parse=whole_number(
            0, hint="write how many bytes the text of a job may have, 0 for no limit"
        ),
        default=DEFAULT_MAX_PAYLOAD_BYTES,
        help="bytes of a job's text above which clients refuse it, and workers put it into the dead set; 0 = no limit",
    )

    redact = Setting(
        parse=words,
        default=list(DEFAULT_KEYS),
        help="names of arguments and attributes whose values no log line or message shows; replaces the default",
    )

    wait_replicas = Setting(
        parse=whole_number(
            0, hint="write how many replicas shall confirm a push, 0 to wait for none"
        ),
        default=0,
        help="how many replicas must confirm a push; 0 = none",
        read_by=("client", "function"),
    )

    encryption_keys = Setting(
        help="keys for encrypted arguments, NUMBER:BASE64; the highest number encrypts, all decrypt "
        "(docs/how_to/encryption.md). A secret; only in the environment",
        read_by=("client", "function"),
    )

    encryption_keys_file = Setting(
        help="file with the same keys, also one a line; read when a job needs it",
        read_by=("client", "function"),
    )


CLIENT_SETTINGS: Final = rows(ForClients)

REDIS_SETTINGS: Final = tuple(each for each in CLIENT_SETTINGS if each.name.startswith("redis_"))
"""Where Redis is, and what a connection logs in with."""
