#!lua
-- Push jobs, each under a guard of its own: guard known → not pushed, the known jid is returned.
-- No allow-oom: with memory full a push is refused as a whole before anything is written.
-- Guards have no TTL: a server whose memory is full evicts what has one. The server's clock says which
-- ones are over; each push forgets some of them.
-- KEYS 1 names of queues (set), 2 guards (hash: guard → 'UNTIL JID'), 3 when they are over (sorted set),
--      then for each job its queue list or sorted set
-- ARGV 1 how many guards that are over to forget at most, 2 number of jobs, then for each job:
--      guard ('' = not guarded), seconds to remember it, jid, queue name, score ('' = at once), text,
--      length at which its queue takes no more ('' = any)
-- Returns for each job '' when pushed, else the jid under which it was enqueued before; or, if jobs that
-- are not known are for queues at their limit, {number of the job, length} for each, and nothing is pushed.
-- Repeated: guarded jobs are known; those without a guard are pushed again.
-- See reliability §11, protocol §5.5.
-- include pushed_jobs
-- include lock_owner
-- include forget_over
-- include too_deep
local jobs = tonumber(ARGV[2])
local guards, guarded = {}, 0
for i = 1, jobs do
  guards[i] = field(i, 1)
  if guards[i] ~= '' then
    guarded = guarded + 1
  end
end
local refused = wrong_type(KEYS[1], 'set')
if guarded > 0 then
  refused = refused or wrong_type(KEYS[2], 'hash') or wrong_type(KEYS[3], 'zset')
end
refused = refused or wrong_target(3, 5)
if refused then
  return refused
end
local now = tonumber(redis.call('TIME')[1])
-- Commands for all jobs together: a call costs the server more than the command in it.
local known = {}  -- guard → the jid under it, also of a job before in this call
if guarded > 0 then
  for i, value in ipairs(redis.call('HMGET', KEYS[2], unpack(guards))) do
    known[guards[i]] = guards[i] ~= '' and owner_in(value, now) or nil
  end
end
local deep = {}
for i = 1, jobs do
  if not (field(i, 7) ~= '' and known[guards[i]]) then
    too_deep(deep, i, KEYS[i + 3], field(i, 7))
  end
end
if deep[1] then
  return deep
end
local answers, ends, values, lists = {}, {}, {}, {}
for i = 1, jobs do
  local guard, key, score, text = guards[i], KEYS[i + 3], field(i, 5), field(i, 6)
  answers[i] = known[guard] or ''
  if not known[guard] then
    if guard ~= '' then
      local till = string.format('%d', now + field(i, 2))
      ends[#ends + 1], ends[#ends + 2] = till, guard
      values[#values + 1], values[#values + 2] = guard, till .. ' ' .. field(i, 3)
      known[guard] = field(i, 3)
    end
    if score ~= '' then
      redis.call('ZADD', key, score, text)
    else
      lists[key] = lists[key] or { name = field(i, 4) }
      lists[key][#lists[key] + 1] = text
    end
  end
end
if ends[1] then
  redis.call('ZADD', KEYS[3], unpack(ends))
end
for key, texts in pairs(lists) do
  enqueue(KEYS[1], texts.name, key, unpack(texts))
end
if values[1] then
  redis.call('HSET', KEYS[2], unpack(values))
end
if guarded > 0 then
  forget_over(KEYS[2], KEYS[3], now, ARGV[1])
end
return answers
