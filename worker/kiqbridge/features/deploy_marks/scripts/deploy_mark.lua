#!lua
-- Mark a deployment, once for each label within a minute.
-- No allow-oom: with memory full it is refused as a whole before anything is written.
-- KEYS 1 lock of the label, 2 marks of the day (hash)
-- ARGV 1 minute of the mark, 2 label, 3 seconds that the lock holds, 4 seconds to keep the marks
-- Returns the minute at which the label was marked, the label that stands there, and 1 if this call
-- wrote it, else 0.
-- Repeated: finds the mark, and returns 0 in the last place.
-- See protocol §12.5.
-- include wrong_type
local refused = wrong_type(KEYS[1], 'string') or wrong_type(KEYS[2], 'hash')
if refused then
  return refused
end
local marked_at = redis.call('GET', KEYS[1])
if marked_at then
  local standing = marked_at == ARGV[1] and redis.call('HGET', KEYS[2], ARGV[1])
  return {marked_at, standing or ARGV[2], 0}
end
local new = redis.call('HSETNX', KEYS[2], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[2], ARGV[4])
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[3])
return {ARGV[1], redis.call('HGET', KEYS[2], ARGV[1]), new}
