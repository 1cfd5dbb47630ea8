"""The tab of schedules in Sidekiq's Web UI: what `contrib/ruby/kiqbridge.rb` asks of them, and shows of them.

The leader of the workers calls it, so that Ruby needs to read no expression. It must never carry out more than what the
command line would. Where Ruby asks nothing it costs one command in Redis every two seconds, and every minute one look at
the schedules.
"""

from kiqbridge.feature import Chore, Feature

FEATURE = Feature(
    package=__name__,
    chores=[
        Chore("requests of Ruby", 2.0, "chores:take_requests"),
        Chore("next occurrences", 15.0, "chores:publish_next"),
    ],
)
