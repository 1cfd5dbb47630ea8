"""Where Redis is and what a connection logs in with, as the settings have it. Nothing is read or opened here.

Where Redis is for this process, as the environment says: fleets are looked into only if it names one.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from kiqbridge import seams
from kiqbridge.config.client_settings import REDIS_SETTINGS, ForClients
from kiqbridge.config.setting import pick, read
from kiqbridge.errors import ConfigError
from kiqbridge.runtime.records import dataclass

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
