#!lua
-- Push jobs, each under a guard of its own: guard known → not pushed, answered with the known jid.
-- No allow-oom: with memory full a push is refused as a whole before anything is written.
-- Guards have no TTL: a server whose memory is full evicts what has one. The server's clock says which
-- ones are over; each push forgets some of them.
-- KEYS 1 names of queues (set), 2 guards (hash: guard → 'UNTIL JID'), 3 when they are over (sorted set),
--      then for each job its queue list or sorted set
-- ARGV 1 seconds to remember a guard, 2 how many that are over to forget at most, then for each job:
--      guard ('' = not guarded), jid, queue name, score ('' = at once), text
-- Answers for each job '' when pushed, else the jid under which it was enqueued before.
local jobs = #KEYS - 3
local guarded = 0
for i = 1, jobs do
  if ARGV[5 * i - 2] ~= '' then
    guarded = guarded + 1
  end
end
local function refusal(key, wanted)
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= wanted then
    return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. found .. ', not a ' .. wanted)
  end
end
local refused = refusal(KEYS[1], 'set')
if guarded > 0 then
  refused = refused or refusal(KEYS[2], 'hash') or refusal(KEYS[3], 'zset')
end
for i = 1, jobs do
  refused = refused or refusal(KEYS[i + 3], ARGV[5 * i + 1] == '' and 'list' or 'zset')
end
if refused then
  return refused
end
local now = tonumber(redis.call('TIME')[1])
local function jid_under(guard)
  local value = guard ~= '' and redis.call('HGET', KEYS[2], guard)
  local till, jid = string.match(value or '', '^(%d+) (.*)$')
  if till and tonumber(till) > now then
    return jid
  end
end
local till = string.format('%d', now + ARGV[1])
local answers = {}
for i = 1, jobs do
  local guard, jid, score = ARGV[5 * i - 2], ARGV[5 * i - 1], ARGV[5 * i + 1]
  local known = jid_under(guard)
  if known then
    answers[i] = known
  else
    if guard ~= '' then
      redis.call('ZADD', KEYS[3], till, guard)
    end
    if score == '' then
      redis.call('SADD', KEYS[1], ARGV[5 * i])
      redis.call('LPUSH', KEYS[i + 3], ARGV[5 * i + 2])
    else
      redis.call('ZADD', KEYS[i + 3], score, ARGV[5 * i + 2])
    end
    if guard ~= '' then
      redis.call('HSET', KEYS[2], guard, till .. ' ' .. jid)
    end
    answers[i] = ''
  end
end
if guarded > 0 then
  local over = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, ARGV[2])
  if over[1] then
    redis.call('HDEL', KEYS[2], unpack(over))
    redis.call('ZREM', KEYS[3], unpack(over))
  end
end
return answers
