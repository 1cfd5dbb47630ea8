"""The functions that expressions may call besides JMESPath's own; imported by the first one evaluated.

Those of AWS Lambda Powertools by name and meaning. Importing its own would cost a first event some 50 ms,
and its unzipping has no limit.
"""

import base64
import json
import zlib
from typing import Any

from jmespath.functions import Functions, signature

from kiqbridge.aws.mapping.expressions import LARGEST_UNZIPPED

_GZIP = 16 + zlib.MAX_WBITS
_text = signature({"types": ["string"]})


class EventFunctions(Functions):  # type: ignore[misc]
    """JMESPath's functions, and those that read encoded texts."""

    @_text  # type: ignore[untyped-decorator]
    def _func_powertools_json(self, value: str) -> Any:
        return json.loads(value)

    @_text  # type: ignore[untyped-decorator]
    def _func_powertools_base64(self, value: str) -> str:
        return base64.b64decode(value).decode()

    @_text  # type: ignore[untyped-decorator]
    def _func_powertools_base64_gzip(self, value: str) -> str:
        unzip = zlib.decompressobj(_GZIP)
        text = unzip.decompress(base64.b64decode(value), LARGEST_UNZIPPED)
        if not unzip.eof:  # a sender chooses how much it unzips to
            raise ValueError(
                f"the unzipped text has more than {LARGEST_UNZIPPED:,} bytes, or is incomplete"
            )
        return text.decode()
