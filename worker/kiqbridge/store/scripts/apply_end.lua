#!lua flags=allow-oom
-- Apply the consequences of a job's end, and remove the end, in one step: each consequence comes about once,
-- however many workers try.
-- KEYS 1 ends of jobs under flow control (sorted set), then for each effect its keys
-- ARGV 1 the end as it was read, then for each effect: its name, number of its keys, number of its arguments, its
--      arguments
-- Returns an empty list when the end is gone, else for each effect what it answers; a text that begins with
-- WRONGTYPE: a key has a value of another type, and this effect did nothing.
-- Repeated: the end is gone, and nothing is done.
-- See reliability §14.
-- include apply_effects
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then
  return {}
end
return apply_effects(2, 2)
