"""The functions that expressions may call besides JMESPath's own; imported by the first one evaluated.

Those of AWS Lambda Powertools; its unzipping has no limit, this one has.
"""

import base64
import zlib

from aws_lambda_powertools.utilities.jmespath_utils import PowertoolsFunctions
from jmespath.functions import signature

from kiqbridge.aws.mapping.expressions import LARGEST_UNZIPPED

_GZIP = 16 + zlib.MAX_WBITS


class EventFunctions(PowertoolsFunctions):
    """JMESPath's functions, and those that read encoded texts."""

    @signature({"types": ["string"]})  # type: ignore[untyped-decorator]
    def _func_powertools_base64_gzip(self, value: str) -> str:
        unzip = zlib.decompressobj(_GZIP)
        text = unzip.decompress(base64.b64decode(value), LARGEST_UNZIPPED)
        if not unzip.eof:  # a sender chooses how much it unzips to
            raise ValueError(
                f"the unzipped text has more than {LARGEST_UNZIPPED:,} bytes, or is incomplete"
            )
        return text.decode()
