#!lua flags=allow-oom
-- End the next jobs of a queue or a sorted set that was cleared, and let them leave Redis: from the tail of the list,
-- or with the lowest scores.
-- KEYS 1 list or sorted set, then those of effects
-- ARGV 1 how many are left after it, then the effects of the ends of the others (parts/each_effect.lua)
-- Returns how many are left.
-- Repeated: adds the same again, and removes nothing.
-- See reliability §14.
-- include leave
local refused = check_ending(2, 2)
if refused then
  return refused
end
leave(nil, nil, nil, 2, 2)
local left = tonumber(ARGV[1])
if left == 0 then
  redis.call('UNLINK', KEYS[1])
elseif redis.call('TYPE', KEYS[1]).ok == 'list' then
  redis.call('LTRIM', KEYS[1], 0, left - 1)
else
  redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - left)
end
return left
