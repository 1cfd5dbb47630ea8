"""What a template of the user gets wrong in silence: nothing refuses it, and jobs are lost or never run.

1. view: a template as it is written, with what is known without AWS filled in.
2. events: the events of the enqueue function, their queues, streams and rights.
3. rights: what roles and policies allow beyond need, and secrets in variables.
4. inputs: the jobs of the rules, against those of the application and the queues of its worker.
5. check: all of them, and what the checks of schedules and mappings find.

`kiqbridge check` is the command, and costs nothing where it is not called. It must never ask AWS or Redis. What is wrong
after SAM's translation is the business of cfn-lint.
"""

from kiqbridge.feature import Feature, Verb

FEATURE = Feature(
    package=__name__,
    verbs=[
        Verb(
            "check",
            "find errors in template, rules and mappings",
            "command",
            group="run",
            has_fleet=False,
        )
    ],
)
