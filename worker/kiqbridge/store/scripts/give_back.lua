#!lua flags=allow-oom
-- Put claimed jobs back to the consuming end of their queue, bytes untouched.
-- KEYS 1 registered incarnations (set), 2 claims of this one (hash), 3 in-flight list of the claim,
--      4 queue list, 5 jobs to claim alone (hash)
-- ARGV 1 incarnation, 2 claimer, 3 number of the claim, 4… jobs, newest first, so that the oldest is
--      the next to run
-- Returns how many were still ours, -1 when the lease is gone (fenced). After a later claim none is:
-- this call was delivered late, and its list may hold the same job anew.
-- Repeated: a job that is back is not in the list any more, and is not counted.
-- See reliability §4, reliability §5.
-- include fence
-- include current_claim
if not is_current(ARGV[2], ARGV[3]) then
  return 0
end
local moved = 0
for i = 4, #ARGV do
  if redis.call('LPOS', KEYS[3], ARGV[i]) then
    redis.call('RPUSH', KEYS[4], ARGV[i])
    redis.call('LREM', KEYS[3], 1, ARGV[i])
    moved = moved + 1
  end
end
-- They lie before those that are to be claimed alone, which are counted from this end on (reliability §8).
-- pcall: a key of a foreign type is no reason to keep a job
if moved > 0 and redis.pcall('HEXISTS', KEYS[5], KEYS[4]) == 1 then
  redis.pcall('HINCRBY', KEYS[5], KEYS[4], moved)
end
return moved
