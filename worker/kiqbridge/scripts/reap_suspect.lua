#!lua flags=allow-oom
-- Put one job of an incarnation that is being reaped behind the suspects of its queue: it was found
-- orphaned too often.
-- KEYS 1 incarnations being reaped (set), 2 in-flight list, 3 suspects (list), 4 queues to be careful
--      with (set), 5 count of the job
-- ARGV 1 incarnation, 2 index of the job, 3 SHA-1 of its bytes, 4 queue name, 5 seconds of care,
--      6 seconds that the count is kept, 7 '1' = count it
-- Answers 1, 0 when another job is there (look again), -1 when it is not being reaped (any more).
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
  return -1
end
local job = redis.call('LINDEX', KEYS[2], ARGV[2])
if not job or redis.sha1hex(job) ~= ARGV[3] then
  return 0
end
-- Behind those that wait there: one that ends its parent as well must not be the next again.
redis.call('LPUSH', KEYS[3], job)
redis.call('LREM', KEYS[2], -1, job)
-- pcall: a key of a foreign type must keep no job in flight
if ARGV[7] == '1' then
  redis.pcall('INCR', KEYS[5])
end
redis.pcall('EXPIRE', KEYS[5], ARGV[6])
redis.pcall('SADD', KEYS[4], ARGV[4])
redis.pcall('EXPIRE', KEYS[4], ARGV[5])
return 1
