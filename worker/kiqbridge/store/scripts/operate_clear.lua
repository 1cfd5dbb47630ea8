#!lua flags=allow-oom
-- Delete all jobs of a queue, or of a sorted set, as an operator's action, at once: where jobs may have consequences
-- the key gets another name, under which they are ended part by part (end_cleared.lua). Should that not happen, it is
-- forgotten, and the leader's search ends them (features/gone_jobs/search.py).
-- KEYS 1 list or sorted set, 2 names of queues (set), 3 audit log (sorted set), 4 its entries (hash), 5 their counts
--      (hash), 6 the other name, or as 1: nothing follows
-- ARGV 1 id of the audit entry, 2 time of the entry, 3 the entry, 4 name of the queue that is no queue any more, or '',
--      5 seconds until the other name is forgotten
-- Returns how many there were.
-- Repeated: gives the same answer; what was pushed since is deleted only if nothing was when it ran first.
-- See protocol §22, reliability §14.
-- include audit
local refused = wrong_audit(KEYS[3], KEYS[4], KEYS[5]) or wrong_type(KEYS[1], ARGV[4] == '' and 'zset' or 'list')
  or wrong_type(KEYS[2], 'set')
if refused then
  return refused
end
local total, last = noted(KEYS[5], ARGV[1])
if last > 0 then
  return total
end
local size = redis.call(ARGV[4] == '' and 'ZCARD' or 'LLEN', KEYS[1])
if KEYS[6] == KEYS[1] then
  redis.call('UNLINK', KEYS[1])
elseif size > 0 then
  redis.call('RENAME', KEYS[1], KEYS[6])
  redis.call('EXPIRE', KEYS[6], ARGV[5])
end
if ARGV[4] ~= '' then
  redis.call('SREM', KEYS[2], ARGV[4])
end
return note(KEYS[3], KEYS[4], KEYS[5], ARGV[1], 1, ARGV[2], ARGV[3], size)
