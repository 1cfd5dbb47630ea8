#!lua flags=allow-oom
-- Take members off a sorted set that cannot become jobs, into the dead set, or that are dropped, with the effects of
-- their ends.
-- KEYS 1 sorted set, 2 dead set, then those of effects
-- ARGV 1 now (score), then for each member: as read, as it is to be kept or '', the effects of its end
--      (parts/each_effect.lua)
-- Returns how many left the sorted set.
-- Repeated: takes only what is still in the sorted set and still due.
-- See reliability §10, reliability §4.1, reliability §14.
-- include leave
local key, i, refused = 3, 2, wrong_type(KEYS[2], 'zset')
while i <= #ARGV and not refused do
  refused, key, i = check_ending(key, i + 2)
end
if refused then
  return refused
end
local moved, _ = 0, nil
key, i = 3, 2
while i <= #ARGV do
  local member, kept = ARGV[i], ARGV[i + 1]
  local score = redis.call('ZSCORE', KEYS[1], member)
  if score and tonumber(score) <= tonumber(ARGV[1]) then
    _, key, i = leave(kept ~= '' and KEYS[2] or nil, ARGV[1], kept, key, i + 2)
    redis.call('ZREM', KEYS[1], member)
    moved = moved + 1
  else
    _, key, i = check_ending(key, i + 2)
  end
end
return moved
