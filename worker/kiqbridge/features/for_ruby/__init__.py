"""The tab of schedules in Sidekiq's Web UI: what `contrib/ruby/kiqbridge.rb` asks of them, and shows of them.

The leader of the workers calls it, so that Ruby needs to read no expression. It must never carry out more than what the
command line would. Where Ruby asks nothing it costs one command in Redis every two seconds, and every minute one look at
the schedules.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(package=__name__, chores="chores:chores")
