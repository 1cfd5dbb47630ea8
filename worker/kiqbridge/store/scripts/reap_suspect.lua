#!lua flags=allow-oom
-- Put one job of an incarnation that is being reaped behind the suspects of its queue: it was found
-- orphaned too often.
-- KEYS 1 incarnations being reaped (set), 2 in-flight list, 3 suspects (list), 4 queues to be careful
--      with (set), 5 count of the job
-- ARGV 1 incarnation, 2 index of the job, 3 SHA-1 of its bytes, 4 queue name, 5 seconds of care,
--      6 seconds that the count is kept, 7 '1' = count it
-- Returns 1, 0 when another job is there (look again), -1 when it is not being reaped (any more).
-- Repeated: 0, the job is not there any more.
-- See reliability §3.4, reliability §8.
-- include fence
-- include orphans
local job = redis.call('LINDEX', KEYS[2], ARGV[2])
if not job or redis.sha1hex(job) ~= ARGV[3] then
  return 0
end
-- Behind those that wait there: one that ends its parent as well must not be the next again.
redis.call('LPUSH', KEYS[3], job)
redis.call('LREM', KEYS[2], -1, job)
count_orphan(KEYS[5], ARGV[6], ARGV[7] == '1')
be_careful(KEYS[4], ARGV[4], ARGV[5])
return 1
