-- include wrong_type
-- include push
-- include owner_in
-- include forget_over
-- include too_deep
-- include rules
-- Jobs that are pushed together, at the `time` of the server. Each may have a key, under which it is pushed once, and a
-- rule. What is decided is decided before anything is written.
-- KEYS behind number `key`: names of queues (set), scheduled jobs (sorted set); of keys, if there are any, guards
--      (hash: guard → 'UNTIL JID') and when they are over (sorted set); of each rule its own; then for each job its
--      queue list
-- ARGV behind number `arg`: 'k' if there are keys, else '', how much of each that is over to forget at most, number of
--      jobs, names of rules with commas, then for each job: queue name, score ('' = at once), text, length at which its
--      queue takes no more ('' = any), jid, guard ('' = none), seconds to remember it, rule ('' = none) and what that has
-- Returns `refused`, what refuses all of them: an error, or for each job {its number, length} whose queue is at its
-- limit, or {its number, text} that its rule refuses. Else `write`, a function, and `behind`, the number of the first
-- argument behind the jobs. It answers for each job '' when pushed, `kJID` when its key is known, `oJID` when its rule
-- leaves it out for the sake of another job, `tTIME` when it runs later than asked for, and `-` when its rule leaves it out.
local function judge_jobs(key, arg, time)
  local most, count, names_of_rules = ARGV[arg + 2], tonumber(ARGV[arg + 3]), ARGV[arg + 4]
  local queues, schedule = KEYS[key + 1], KEYS[key + 2]
  local has_keys = ARGV[arg + 1] ~= ''
  key, arg = key + 2, arg + 5
  local guards, guards_over
  local refused = wrong_type(queues, 'set')
  if has_keys then
    guards, guards_over = KEYS[key + 1], KEYS[key + 2]
    refused = refused or wrong_type(guards, 'hash') or wrong_type(guards_over, 'zset')
    key = key + 2
  end
  local now = tonumber(time[1])
  local rules, exact = {}, now + tonumber(time[2]) / 1000000
  for name in string.gmatch(names_of_rules, '[^,]+') do
    local rule = rule_of[name](key, now, exact, schedule, most)
    rules[name], refused, key = rule, refused or rule.refused, key + rule.keys
  end
  local jobs, names, types = {}, {}, {}
  local function expect(name, kind)
    if not types[name] then
      types[name] = kind
      refused = refused or wrong_type(name, kind)
    end
  end
  for i = 1, count do
    local job = {
      list = KEYS[key + i], queue = ARGV[arg], score = ARGV[arg + 1], text = ARGV[arg + 2], limit = ARGV[arg + 3],
      jid = ARGV[arg + 4], guard = ARGV[arg + 5], keep = ARGV[arg + 6], rule = rules[ARGV[arg + 7]],
    }
    arg = arg + 8
    if job.rule then
      arg = job.rule.read(job, arg)
    end
    jobs[i], names[i] = job, job.guard
    if job.score == '' and not job.is_later then
      expect(job.list, 'list')
    end
    if job.score ~= '' or job.may_be_later then
      expect(schedule, 'zset')
    end
  end
  if refused then
    return { refused = refused }
  end
  -- Commands for all jobs together: a call costs the server more than the command in it.
  local known = {} -- guard → the jid under it, also of a job before in this call
  if guards then
    for i, value in ipairs(redis.call('HMGET', guards, unpack(names))) do
      known[names[i]] = names[i] ~= '' and owner_in(value, now) or nil
    end
  end
  local deep, conflicts = {}, {}
  for i, job in ipairs(jobs) do
    local jid = known[job.guard]
    if jid then
      job.answer = jid == '-' and '-' or 'k' .. jid
    else
      local owner = job.rule and job.rule.judge(job)
      if owner then
        conflicts[#conflicts + 1] = {i, owner}
      elseif not job.answer and job.score == '' and not job.is_later then
        too_deep(deep, i, job.list, job.limit)
      end
      if job.guard ~= '' then
        job.is_new = true
        known[job.guard] = not job.answer and job.jid or job.answer == '-' and '-' or job.owner or job.jid
      end
    end
  end
  if conflicts[1] or deep[1] then
    return { refused = conflicts[1] and conflicts or deep }
  end
  local function write()
    local answers, ends, values, lists = {}, {}, {}, {}
    for i, job in ipairs(jobs) do
      if job.is_new then
        local till = string.format('%d', now + job.keep)
        ends[#ends + 1], ends[#ends + 2] = till, job.guard
        values[#values + 1], values[#values + 2] = job.guard, till .. ' ' .. known[job.guard]
      end
      if not job.answer then
        job.answer = job.rule and job.rule.write(job) or ''
        if job.answer ~= '' then -- its rule has put it into the schedule
        elseif job.score ~= '' then
          redis.call('ZADD', schedule, job.score, job.text)
        else
          lists[job.list] = lists[job.list] or { name = job.queue }
          lists[job.list][#lists[job.list] + 1] = job.text
        end
      end
      answers[i] = job.answer
    end
    if ends[1] then
      redis.call('ZADD', guards_over, unpack(ends))
    end
    for list, texts in pairs(lists) do
      enqueue(queues, texts.name, list, unpack(texts))
    end
    for _, rule in pairs(rules) do
      rule.note()
    end
    if guards then
      if values[1] then
        redis.call('HSET', guards, unpack(values))
      end
      forget_over(guards, guards_over, now, most)
    end
    return answers
  end
  return { write = write, behind = arg }
end
