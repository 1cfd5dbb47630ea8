#!lua flags=allow-oom
-- Apply the consequences of a job's end, and remove the end, in one step: each consequence comes about once,
-- however many workers try.
-- KEYS 1 ends of jobs under flow control (sorted set), then for each effect its keys
-- ARGV 1 the end as it was read, then the effects (parts/each_effect.lua)
-- Returns an empty list when the end is gone, else for each effect what it answers. An error: a key has a value of
-- another type; nothing was done, and the end stays, so that no job that is to follow is lost.
-- Repeated: the end is gone, and nothing is done.
-- See reliability §14.
-- include apply_effects
-- include wrong_type
local of_batch = {'hash', 'hash', 'zset', 'zset'}
local TYPES = {
  push = {'set', 'list', 'zset'},
  add = {'zset'},
  batch_make = {'hash', 'zset'},
  batch_jobs = {'hash', 'hash', 'set', 'list', 'zset'},
  batch_seal = of_batch,
  batch_end = of_batch,
  guard = {'string'},
  unlock = {'hash', 'zset', 'zset'},
  result = {'string'},
}
local refused
each_effect(2, 2, function(name, keys)
  for n, key in ipairs(keys) do
    refused = refused or wrong_type(key, TYPES[name][n])
  end
end)
if refused then
  return refused
end
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then
  return {}
end
return apply_effects(2, 2)
