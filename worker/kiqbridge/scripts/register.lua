#!lua flags=allow-oom
-- Take out a lease: from now on the incarnation may claim jobs.
-- KEYS 1 registered incarnations (set), 2 liveness of this one
-- ARGV 1 incarnation, 2 milliseconds until it counts as silent
redis.call('SET', KEYS[2], '1', 'PX', ARGV[2])
redis.call('SADD', KEYS[1], ARGV[1])
return 1
