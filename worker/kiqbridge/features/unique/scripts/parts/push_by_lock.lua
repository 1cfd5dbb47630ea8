-- include lock_owner
-- include rules
-- include wrong_type
-- Unique jobs: one whose lock another job owns is left out, or takes it over, or refuses the push.
-- Keys: locks (hash: name → 'UNTIL JID'), when each is looked at (sorted set), jobs that were replaced (sorted set:
-- until when that is known). Arguments of a job: name of its lock, seconds after its time that it counts at most, what
-- if another job owns it: drop, replace or raise; seconds until it is looked at.
-- A lock's own time, by the server's clock, is the last resort; the leader looks for those whose job is gone.
function rule_of.unique(key, now)
  local locks, looks, replaced = KEYS[key + 1], KEYS[key + 2], KEYS[key + 3]
  local owners, tills, taken = {}, {}, {}
  -- `locks` is checked as it is read.
  local rule = { keys = 3, refused = wrong_type(looks, 'zset') or wrong_type(replaced, 'zset') }
  function rule.read(job, arg)
    job.lock, job.ttl, job.conflict, job.look = ARGV[arg], ARGV[arg + 1], ARGV[arg + 2], ARGV[arg + 3]
    return arg + 4
  end
  function rule.judge(job)
    local name = job.lock
    if owners[name] == nil then
      owners[name], tills[name] = lock_owner(locks, name, now)
    end
    local owner = owners[name]
    if owner and owner ~= job.jid and job.conflict == 'raise' then
      return owner
    elseif owner == job.jid then
      job.answer = '' -- pushed before
    elseif owner and job.conflict ~= 'replace' then
      job.answer, job.owner = 'o' .. owner, owner
    else
      job.former, job.former_till = owner, tills[name]
      job.till = math.ceil(math.max(now, tonumber(job.score) or now) + job.ttl)
      owners[name], tills[name] = job.jid, job.till
    end
  end
  function rule.write(job)
    taken[#taken + 1] = job
  end
  function rule.note()
    for _, job in ipairs(taken) do
      take_lock(locks, looks, job.lock, job.jid, job.till, now + job.look)
      if job.former then
        redis.call('ZADD', replaced, job.former_till, job.former)
      end
    end
  end
  return rule
end
