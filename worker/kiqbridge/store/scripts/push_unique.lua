#!lua
-- Push unique jobs, each with its lock: one whose lock another job owns is left out, or takes it over.
-- No allow-oom: with memory full a push is refused as a whole before anything is written.
-- Locks have no TTL: a server whose memory is full evicts what has one. Their own time, by the server's clock, is
-- the last resort; the leader looks for those whose job is gone.
-- KEYS 1 names of queues (set), 2 locks (hash: name → 'UNTIL JID'), 3 when each is looked at (sorted set), 4 jobs
--      that were replaced (sorted set: until when that is known), then for each job its queue list or sorted set
-- ARGV 1 seconds until a lock is looked at, 2 number of jobs, then for each job: name of its lock, seconds after its
--      time that it counts at most, jid, what if another job owns it: drop, replace or raise, queue name, score
--      ('' = at once), text
-- Returns for each job '' when pushed, else the jid that owns the lock; or, if jobs that are to raise are not
-- free, {number of the job, jid of the owner} for each, and nothing is pushed.
-- Repeated: a job that owns its lock is not pushed again; it is once it has ended.
-- See reliability §14, protocol §5.5.
-- include pushed_jobs
-- include lock_owner
local jobs = tonumber(ARGV[2])
-- `kb:locks` is checked as it is read.
local refused = wrong_type(KEYS[1], 'set') or wrong_type(KEYS[3], 'zset') or wrong_type(KEYS[4], 'zset')
refused = refused or wrong_target(4, 6)
if refused then
  return refused
end
local now = tonumber(redis.call('TIME')[1])
local owners, tills, first, conflicts = {}, {}, {}, {}
for i = 1, jobs do
  local name, jid = field(i, 1), field(i, 3)
  if not first[name] then
    first[name] = jid
    owners[name], tills[name] = lock_owner(KEYS[2], name, now)
  end
  local owner = owners[name] or first[name]
  if owner ~= jid and field(i, 4) == 'raise' then
    conflicts[#conflicts + 1] = {i, owner}
  end
end
if conflicts[1] then
  return conflicts
end
local answers = {}
for i = 1, jobs do
  local name, jid, score = field(i, 1), field(i, 3), field(i, 6)
  local owner = owners[name]
  if owner and owner ~= jid and field(i, 4) ~= 'replace' then
    answers[i] = owner
  else
    if owner ~= jid then
      local till = math.ceil(math.max(now, tonumber(score) or now) + field(i, 2))
      push(KEYS[1], field(i, 5), KEYS[i + 4], score, field(i, 7))
      take_lock(KEYS[2], KEYS[3], name, jid, till, now + ARGV[1])
      if owner then
        redis.call('ZADD', KEYS[4], tills[name], owner)
      end
      owners[name], tills[name] = jid, till
    end
    answers[i] = ''
  end
end
return answers
