#!lua flags=allow-oom
-- Give jobs of an incarnation that is being reaped back to the consuming end of their queue, newest
-- first, so that the oldest is the next to run; stops at the first one that is not as it was seen.
-- When the owner died each is counted as found orphaned, and will be claimed alone.
-- KEYS 1 incarnations being reaped (set), 2 in-flight list, 3 queue list, 4 jobs to claim alone (hash),
--      5 queues to be careful with (set), then the count of each job; none when the owner signs off
-- ARGV 1 incarnation, 2 most jobs, 3 bytes after which to stop, 4 queue name, 5 seconds of care,
--      6 seconds that a count is kept, then the SHA-1 of each counted job, newest first
-- Returns how many went back, -1 when it is not being reaped (any more).
-- Repeated: 0, since the first of the list is another one now; without counts it returns the next ones.
-- See reliability §3.4, reliability §8.
-- include fence
-- include orphans
local counts, moved, bytes = #KEYS > 5, 0, 0
for i = 1, tonumber(ARGV[2]) do
  if counts then
    local job = redis.call('LINDEX', KEYS[2], 0)
    if not job or redis.sha1hex(job) ~= ARGV[6 + i] then
      break
    end
  end
  local job = redis.call('LMOVE', KEYS[2], KEYS[3], 'LEFT', 'RIGHT')
  if not job then
    break
  end
  moved, bytes = moved + 1, bytes + #job
  if counts then
    count_orphan(KEYS[5 + i], ARGV[6], true)
  end
  if bytes >= tonumber(ARGV[3]) then
    break
  end
end
if counts and moved > 0 then
  -- pcall: a key of a foreign type must keep no job from going back
  redis.pcall('HINCRBY', KEYS[4], KEYS[3], moved)
  be_careful(KEYS[5], ARGV[4], ARGV[5])
end
return moved
