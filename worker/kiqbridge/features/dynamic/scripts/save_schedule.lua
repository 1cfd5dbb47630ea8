#!lua
-- Create or change the definition of a schedule, if it is still the one that was read. What was placed ahead by
-- the old one is withdrawn.
-- No allow-oom: with memory full a definition is refused as a whole before anything is written.
-- KEYS 1 definitions (hash), 2 cursors (hash), 3 jobs of the schedule placed ahead (sorted set), 4 scheduled
--      jobs (sorted set), 5 ledger of the schedule (sorted set), 6 number of changes (string)
-- ARGV 1 name, 2 definition as it was read ('' = none), 3 definition to write, 4 cursor to write, 'back' = set it
--      back to before the first occurrence that is withdrawn, 5 instant after which occurrences are withdrawn,
--      '-inf' = all
-- Returns {'saved', number of occurrences withdrawn}, {'same'}: that is the definition already, or {'other'}: it
-- is not the one that was read.
-- Repeated: {'same'}, and nothing is written.
-- See docs/explanation/schedules.md.
-- include wrong_type
-- include withdraw
local known = redis.call('HGET', KEYS[1], ARGV[1])
if known == ARGV[3] then
  return {'same'}
end
if (known or '') ~= ARGV[2] then
  return {'other'}
end
local refused = wrong_type(KEYS[2], 'hash') or wrong_type(KEYS[3], 'zset') or wrong_type(KEYS[4], 'zset')
  or wrong_type(KEYS[5], 'zset') or wrong_type(KEYS[6], 'string')
if refused then
  return refused
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
local after = ARGV[5] ~= '-inf' and tonumber(ARGV[5])
local count, first = withdraw(KEYS[3], KEYS[4], KEYS[5], function(instant)
  return not after or tonumber(instant) > after
end)
set_cursor(KEYS[2], ARGV[1], ARGV[4], first)
redis.call('INCR', KEYS[6])
return {'saved', count}
