#!lua flags=allow-oom
-- Move members that cannot become jobs from a sorted set to the dead set.
-- KEYS 1 sorted set, 2 dead set
-- ARGV 1 now (score), 2 drop what died up to this score, 3 drop all but the last N - 1, then for
--      each member: as read, as it shall be kept
-- Answers how many were moved.
local moved = 0
for i = 4, #ARGV, 2 do
  if redis.call('ZSCORE', KEYS[1], ARGV[i]) then
    redis.call('ZADD', KEYS[2], ARGV[1], ARGV[i + 1])
    redis.call('ZREM', KEYS[1], ARGV[i])
    moved = moved + 1
  end
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ARGV[2])
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, '-' .. ARGV[3])
return moved
