"""Deploy marks: when something was deployed, drawn into the charts of Sidekiq's Web UI (protocol §12.5).

For deployments that run `kiqbridge deploy-mark`, or `Client.deploy_mark`; nothing else loads it. It must never mark a label
twice, however many machines of a deployment report it.
"""

from kiqbridge.feature import Feature, Verb

FEATURE = Feature(
    package=__name__,
    verbs=[
        Verb(
            "deploy-mark",
            "mark a deployment in the charts of the Web UI",
            "command",
            group="set up",
        )
    ],
    calls={"deploy_mark": "marks:mark"},
)
