#!lua flags=allow-oom
-- Move members that cannot become jobs from a sorted set to the dead set.
-- KEYS 1 sorted set, 2 dead set
-- ARGV 1 now (score), 2 remove what died up to this score, 3 keep the last N - 1 only, then for each
--      member: as read, as it is to be kept
-- Returns how many were moved.
-- Repeated: moves only what is still in the sorted set.
-- See reliability §10, reliability §4.1, protocol §8.5.
-- include add_twin
-- include trim_dead
local moved = 0
for i = 4, #ARGV, 2 do
  if redis.call('ZSCORE', KEYS[1], ARGV[i]) then
    add_twin(KEYS[2], ARGV[1], ARGV[i + 1])
    redis.call('ZREM', KEYS[1], ARGV[i])
    moved = moved + 1
  end
end
trim_dead(KEYS[2], ARGV[2], ARGV[3])
return moved
