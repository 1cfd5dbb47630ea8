"""Schedules as AWS writes them: EventBridge's expressions, and the rules of a CloudFormation template.

`kiqbridge dev`, the checks of a template and the tests call it. It must never need an AWS account.
"""
