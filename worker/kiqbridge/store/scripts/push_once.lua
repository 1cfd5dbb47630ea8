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
local guarded = 0
for i = 1, jobs do
  if field(i, 1) ~= '' then
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
local function jid_under(guard)
  return guard ~= '' and lock_owner(KEYS[2], guard, now)
end
local deep = {}
for i = 1, jobs do
  if not (field(i, 7) ~= '' and jid_under(field(i, 1))) then
    too_deep(deep, i, KEYS[i + 3], field(i, 7))
  end
end
if deep[1] then
  return deep
end
local answers = {}
for i = 1, jobs do
  local guard, jid = field(i, 1), field(i, 3)
  local known = jid_under(guard)
  if known then
    answers[i] = known
  else
    local till = guard ~= '' and string.format('%d', now + field(i, 2))
    if till then
      redis.call('ZADD', KEYS[3], till, guard)
    end
    push(KEYS[1], field(i, 4), KEYS[i + 3], field(i, 5), field(i, 6))
    if till then
      redis.call('HSET', KEYS[2], guard, till .. ' ' .. jid)
    end
    answers[i] = ''
  end
end
if guarded > 0 then
  forget_over(KEYS[2], KEYS[3], now, ARGV[1])
end
return answers
