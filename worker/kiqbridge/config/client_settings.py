"""The rows of the table that clients read, wherever they are: in a worker, in the enqueue function, alone.

`RedisAccess` is where Redis is and what a connection logs in with. Fleets are looked into only if the environment
names one.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from kiqbridge import seams
from kiqbridge.config.parsers import of_feature, whole_number, wire_profile, words
from kiqbridge.config.setting import Reader, Setting, pick, read, rows
from kiqbridge.errors import ConfigError
from kiqbridge.runtime.records import dataclass
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


OWN: Final = {each.name.removeprefix("redis_"): each for each in REDIS_SETTINGS}
"""Attribute of `RedisAccess` → the setting that it is; a worker has it as `redis_` and that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisAccess:
    """The settings of `REDIS_SETTINGS` together.

    Attributes:
        url: the address; with a secret or parameter, what that lacks.
        url_is_default: no setting has the address.
        secret_arn: a secret of Secrets Manager that holds it.
        ssm_parameter: a parameter of SSM that does.
        iam_user, iam_cache: user and cache of ElastiCache for tokens of IAM; the cache as the setting has it.
        aws: the variables of the environment that are AWS's.
        namespace: of all keys, which says where they lie in a cluster.

    Raises:
        ConfigError: settings exclude each other.
    """

    url: str = field(repr=False)
    url_is_default: bool = False
    secret_arn: str = ""
    ssm_parameter: str = ""
    iam_user: str = ""
    iam_cache: str = ""
    aws: Mapping[str, str] = field(default_factory=dict, repr=False)
    namespace: str = ""

    def __post_init__(self) -> None:
        given = [
            name
            for name, value in (
                ("REDIS_SECRET_ARN", self.secret_arn),
                ("REDIS_SSM_PARAMETER", self.ssm_parameter),
                ("REDIS_IAM_USER", self.iam_user),
            )
            if value
        ]
        if len(given) > 1:
            raise ConfigError(
                f"{' and '.join(given)} are set, and each of them says how to log in; keep one"
            )
        if bool(self.iam_user) != bool(self.iam_cache):
            there, missing = ("REDIS_IAM_USER", "REDIS_IAM_CACHE")[:: 1 if self.iam_user else -1]
            raise ConfigError(
                f"{there} is set and {missing} is not; a token of IAM is made for a user and a cache: set both"
            )

    @property
    def region(self) -> str:
        """The region of the environment; empty when none is set."""
        return region_in(self.aws)


def region_in(aws: Mapping[str, str]) -> str:
    """The region that the variables of AWS name; empty when none is set."""
    return aws.get("AWS_REGION") or aws.get("AWS_DEFAULT_REGION") or ""


def base_access(environ: Mapping[str, str]) -> RedisAccess:
    """What the environment says, whatever fleet it names.

    Raises:
        ConfigError: a wrong value, or settings that exclude each other.
    """
    return RedisAccess(
        url_is_default=pick(ForClients.redis_url, environ)[1] == "default",
        aws=aws_variables(environ),
        namespace=read(ForClients.namespace, environ),
        **{name: read(setting, environ) for name, setting in OWN.items()},
    )


def aws_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Those whose names begin with AWS_."""
    return {name: value for name, value in environ.items() if name.startswith("AWS_")}


def read_access(environ: Mapping[str, str]) -> RedisAccess:
    """What the environment says; of the fleet that it names, if it names one.

    Raises:
        ConfigError: a wrong value, or settings that exclude each other.
    """
    if environ.get("KIQBRIDGE_FLEET"):
        fleets = seams.call("read_fleets")(environ)
        own: RedisAccess = fleets.fleets[fleets.own].access
        return own
    return base_access(environ)


def read_namespace(environ: Mapping[str, str]) -> str:
    """The namespace that the environment says; raises as `read_access`."""
    if environ.get("KIQBRIDGE_FLEET"):
        return read_access(environ).namespace
    return str(read(ForClients.namespace, environ))
