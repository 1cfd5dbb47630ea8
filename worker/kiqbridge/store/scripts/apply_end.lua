#!lua flags=allow-oom
-- Apply the consequences of a job's end, and remove the end, in one step: each consequence comes about once,
-- however many workers try.
-- KEYS 1 ends of jobs under flow control (sorted set), then for each effect its keys
-- ARGV 1 the end as it was read, then for each effect: its name, number of its keys, number of its arguments, its
--      arguments
-- Returns an empty list when the end is gone, else for each effect what it answers. An error: a key has a value of
-- another type; nothing was done, and the end stays, so that no job that is to follow is lost.
-- Repeated: the end is gone, and nothing is done.
-- See reliability §14.
-- include apply_effects
-- include wrong_type
local of_batch = {'hash', 'hash', 'zset', 'zset'}
local TYPES = {
  push = {'set', 'list', 'zset'},
  report = {'zset'},
  batch_make = {'hash', 'zset'},
  batch_jobs = {'hash', 'hash', 'set', 'list', 'zset'},
  batch_seal = of_batch,
  batch_end = of_batch,
  guard = {'string'},
  unlock = {'hash', 'zset', 'zset'},
  result = {'string'},
}
local key, i = 2, 2
while i <= #ARGV do
  for n = 1, tonumber(ARGV[i + 1]) do
    local refused = wrong_type(KEYS[key], TYPES[ARGV[i]][n])
    if refused then
      return refused
    end
    key = key + 1
  end
  i = i + 3 + tonumber(ARGV[i + 2])
end
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then
  return {}
end
return apply_effects(2, 2)
