"""What a connection logs in with when that stands in no setting: secrets, parameters, tokens of IAM.

The store calls it, only where such a setting is used. It must never log what it reads, and never load
botocore where the environment has the keys, as in a Lambda function: signing with the standard library
spares its start 100 ms (docs/decisions/0009-requests-to-aws-are-signed-here.md).
"""
