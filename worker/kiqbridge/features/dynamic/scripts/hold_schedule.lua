#!lua flags=allow-oom
-- Change the state of a schedule (paused, skipped), if it is still the one that was read, or delete the schedule.
-- What was placed ahead and shall not fire any more is withdrawn.
-- With memory full too: who pauses or deletes then does it to help, and it frees more than it adds.
-- KEYS 1 definitions (hash), 2 states (hash), 3 cursors (hash), 4 jobs of the schedule placed ahead (sorted set),
--      5 scheduled jobs (sorted set), 6 ledger of the schedule (sorted set), 7 number of changes (string)
-- ARGV 1 name, 2 'keep', 'delete', or 'remove': delete its definition, state and cursor stay, 3 state as it was read ('' = none), 4 state to write ('' = none), 5 cursor to
--      write, 'back' = set it back to before the first occurrence that is withdrawn, '' = leave it,
--      6… instants to withdraw, or 'all'
-- Returns {'done', number of occurrences withdrawn}, {'same'}: nothing was to be done, or {'other'}: the state is
-- not the one that was read.
-- Repeated: {'same'}, and nothing is written.
-- See docs/explanation/schedules.md.
-- include wrong_type
-- include withdraw
local known = redis.call('HGET', KEYS[2], ARGV[1]) or ''
local is_deletion = ARGV[2] ~= 'keep'
local is_written = known == ARGV[4] and (ARGV[3] ~= ARGV[4] or #ARGV < 6)
if is_deletion then
  is_written = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 and known == ARGV[4]
end
if is_written then
  return {'same'}
end
if known ~= ARGV[3] then
  return {'other'}
end
local refused = wrong_type(KEYS[3], 'hash') or wrong_type(KEYS[4], 'zset') or wrong_type(KEYS[5], 'zset')
  or wrong_type(KEYS[6], 'zset') or wrong_type(KEYS[7], 'string')
if refused then
  return refused
end
if ARGV[4] ~= '' then
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[4])
else
  redis.call('HDEL', KEYS[2], ARGV[1])
end
local listed = {}
for i = 6, #ARGV do
  listed[ARGV[i]] = true
end
local count, first = withdraw(KEYS[4], KEYS[5], KEYS[6], function(instant)
  return listed['all'] or listed[instant]
end)
if is_deletion then
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('UNLINK', KEYS[4])
end
if ARGV[2] == 'delete' then
  redis.call('HDEL', KEYS[3], ARGV[1])
else
  set_cursor(KEYS[3], ARGV[1], ARGV[5], first)
end
redis.call('INCR', KEYS[7])
return {'done', count}
