#!lua
-- Push jobs, each under a guard of its own: guard known → not pushed, answered with the known jid.
-- No allow-oom: with memory full a push is refused as a whole before anything is written.
-- KEYS 1 names of queues (set), then for each job its guard and its queue list or sorted set
-- ARGV 1 seconds to remember a guard, then for each job: '1' = guarded, jid, queue name,
--      score ('' = at once), text
-- Answers for each job '' when pushed, else the jid under which it was enqueued before.
local jobs = (#KEYS - 1) / 2
local function refusal(key, wanted)
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= wanted then
    return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. found .. ', not a ' .. wanted)
  end
end
local refused = refusal(KEYS[1], 'set')
for i = 1, jobs do
  refused = refused
    or (ARGV[5 * i - 3] == '1' and refusal(KEYS[2 * i], 'string'))
    or refusal(KEYS[2 * i + 1], ARGV[5 * i] == '' and 'list' or 'zset')
end
if refused then
  return refused
end
local answers = {}
for i = 1, jobs do
  local guard, target = KEYS[2 * i], KEYS[2 * i + 1]
  local guarded, jid = ARGV[5 * i - 3] == '1', ARGV[5 * i - 2]
  local known = guarded and redis.call('GET', guard)
  if known then
    answers[i] = known
  else
    if ARGV[5 * i] == '' then
      redis.call('SADD', KEYS[1], ARGV[5 * i - 1])
      redis.call('LPUSH', target, ARGV[5 * i + 1])
    else
      redis.call('ZADD', target, ARGV[5 * i], ARGV[5 * i + 1])
    end
    if guarded then
      redis.call('SET', guard, jid, 'EX', ARGV[1])
    end
    answers[i] = ''
  end
end
return answers
