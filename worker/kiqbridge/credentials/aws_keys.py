"""The access key of this process: from its environment, else as AWS's SDKs look for it."""

from collections.abc import Mapping
from typing import Any

from kiqbridge.credentials.sigv4 import Keys
from kiqbridge.errors import RedisMisconfigured, RedisUnavailable


class Keychain:
    """Gives the keys of the moment; those of a role are renewed by botocore before they expire.

    A Lambda function has its keys in the environment. A task of ECS, an EC2 instance and a profile need
    botocore, the extra `aws`.

    Args:
        aws: the variables of the environment that are AWS's.
    """

    def __init__(self, aws: Mapping[str, str]) -> None:
        self._aws = aws
        self._role: Any = None

    def __repr__(self) -> str:
        return "Keychain()"

    def keys(self) -> Keys:
        """The keys of the moment.

        Raises:
            RedisMisconfigured: there are none, or botocore is missing.
            RedisUnavailable: those of the role cannot be read now.
        """
        access_key, secret_key = (
            self._aws.get("AWS_ACCESS_KEY_ID"),
            self._aws.get("AWS_SECRET_ACCESS_KEY"),
        )
        if access_key and secret_key:
            token = self._aws.get("AWS_SESSION_TOKEN") or None
            return Keys(access_key=access_key, secret_key=secret_key, session_token=token)
        return self._keys_of_role()

    def _keys_of_role(self) -> Keys:
        try:
            import botocore.exceptions  # noqa: PLC0415 - see the package
            import botocore.session  # noqa: PLC0415
        except ImportError:
            raise RedisMisconfigured(
                "AWS_ACCESS_KEY_ID is not set, and botocore, which reads the keys of a role, is not "
                "installed: pip install 'kiqbridge[aws]'"
            ) from None
        try:
            if self._role is None:
                self._role = botocore.session.get_session().get_credentials()
            if self._role is not None:
                found = self._role.get_frozen_credentials()
                return Keys(
                    access_key=found.access_key,
                    secret_key=found.secret_key,
                    session_token=found.token,
                )
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
            raise RedisUnavailable(f"the keys of the role cannot be read now: {error}") from error
        raise RedisMisconfigured(
            "there are no AWS credentials; give the function, the task or the instance a role, or set "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
