#!lua flags=allow-oom
-- Say that the owner of a lease is alive. A lease that was taken away is never given back here.
-- KEYS 1 registered incarnations (set), 2 liveness of this one
-- ARGV 1 incarnation, 2 milliseconds until it counts as silent
-- Answers 1, or 0 when the lease is gone (fenced).
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('SET', KEYS[2], '1', 'PX', ARGV[2])
return 1
