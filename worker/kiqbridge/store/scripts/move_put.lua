#!lua
-- Put a batch of jobs that comes from another shard into a queue or a sorted set, once, with the locks of unique jobs.
-- No allow-oom: with memory full it is refused as a whole before anything is written.
-- KEYS 1 queue (list) or sorted set, 2 the last batch of each queue of each shard (hash: `ID QUEUE` → `NUMBER TEXT`),
--      3 names of queues (set), 4 locks (hash: name → 'UNTIL JID'), 5 when each is looked at (sorted set), 6 jobs that
--      were replaced (sorted set: until when that is known)
-- ARGV 1 whose batch it is, `ID QUEUE`, 2 its number, 3 its text, 4 name of the queue, '' = a set, 5 seconds until a
--      lock is looked at, 6 number of arguments for its jobs, then those: texts, the next to be performed first; of a
--      set each behind its score; then number of its locks, for each name, until when, jid; then for each job that
--      was replaced until when, jid
-- Returns '' once the batch is here, also if it was before; else the last one, `NUMBER TEXT`: a later batch is here, or
-- another one of the same number, and nothing was done.
-- Repeated: '', and nothing is changed.
-- See reliability §16.
-- include wrong_type
-- include lock_owner
local is_queue = ARGV[4] ~= ''
local refused = wrong_type(KEYS[1], is_queue and 'list' or 'zset') or wrong_type(KEYS[2], 'hash')
  or wrong_type(KEYS[3], 'set') or wrong_type(KEYS[4], 'hash') or wrong_type(KEYS[5], 'zset')
  or wrong_type(KEYS[6], 'zset')
if refused then
  return refused
end
local batch = ARGV[2] .. ' ' .. ARGV[3]
local last = redis.call('HGET', KEYS[2], ARGV[1]) or ''
if last == batch then
  redis.call('HSET', KEYS[2], ARGV[1], batch) -- a write, so that WAIT has one to wait for
  return ''
end
local number = tonumber(string.match(last, '^(%d+) ') or 0)
if number >= tonumber(ARGV[2]) then
  return last
end
local now = tonumber(redis.call('TIME')[1])
local jobs = tonumber(ARGV[6])
local locks = tonumber(ARGV[7 + jobs])
for i = 8 + jobs, 7 + jobs + 3 * locks, 3 do
  local owner = lock_owner(KEYS[4], ARGV[i], now)
  if not owner or owner == ARGV[i + 2] then
    take_lock(KEYS[4], KEYS[5], ARGV[i], ARGV[i + 2], ARGV[i + 1], now + ARGV[5])
  end
end
for i = 8 + jobs + 3 * locks, #ARGV, 2 do
  redis.call('ZADD', KEYS[6], ARGV[i], ARGV[i + 1])
end
if is_queue then
  redis.call('SADD', KEYS[3], ARGV[4])
  redis.call('LPUSH', KEYS[1], unpack(ARGV, 7, 6 + jobs))
else
  redis.call('ZADD', KEYS[1], unpack(ARGV, 7, 6 + jobs))
end
redis.call('HSET', KEYS[2], ARGV[1], batch)
return ''
