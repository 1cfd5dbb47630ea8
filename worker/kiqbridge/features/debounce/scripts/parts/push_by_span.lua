-- include forget_over
-- include rules
-- include wrong_type
-- Throttled and debounced jobs. Keys: spans (hash: name → 'NUMBER COUNT' of a throttled job, 'FIRST TEXT' of a debounced
-- one that waits), when they are over (sorted set).
-- Throttled: at most so many of a name in each span of time; what is too much is left out, or scheduled for the first
-- span with room. Arguments: name, jobs in a span, seconds of a span, drop or later, the text for the schedule.
-- Debounced: it runs once no other of its name has come for a while, and takes the place of the one that waits. The job
-- itself is always in the schedule; the entry only says which one that is. Arguments: name, seconds to wait, seconds
-- that it may wait in all ('' = any).
function rule_of.throttle(key, _, now, schedule, most)
  local spans, over = KEYS[key + 1], KEYS[key + 2]
  local counts, throttle = {}, { keys = 2, refused = wrong_type(spans, 'hash') or wrong_type(over, 'zset') }
  function throttle.read(job, arg)
    job.span, job.most, job.length = ARGV[arg], tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2])
    job.may_be_later = ARGV[arg + 3] == 'later'
    job.later = ARGV[arg + 4]
    return arg + 5
  end
  function throttle.judge(job)
    local span = math.floor(math.max(now, tonumber(job.score) or now) / job.length)
    local at = counts[job.span]
    if not at then
      local number, count = string.match(redis.call('HGET', spans, job.span) or '', '^(%d+) (%d+)$')
      at = { number = tonumber(number) or span, count = tonumber(count) or 0 }
    end
    local number, count = at.number, at.count
    if number < span then
      number, count = span, 0
    end
    if count >= job.most then
      number, count = number + 1, 0
    end
    if number > span and not job.may_be_later then
      job.answer = '-'
      return
    end
    job.at = number > span and string.format('%.6f', number * job.length) or nil
    counts[job.span] = { number = number, count = count + 1, length = job.length }
  end
  function throttle.write(job)
    if job.at then
      redis.call('ZADD', schedule, job.at, job.later)
      return 't' .. job.at
    end
  end
  function throttle.note()
    for name, at in pairs(counts) do
      redis.call('ZADD', over, math.ceil((at.number + 1) * at.length), name)
      redis.call('HSET', spans, name, string.format('%d %d', at.number, at.count))
    end
    forget_over(spans, over, now, most)
  end
  return throttle
end
function rule_of.debounce(key, _, now, schedule)
  local KEPT = 60 -- seconds for which an entry outlasts its job's time: a poller may be late
  local spans, over = KEYS[key + 1], KEYS[key + 2]
  local debounce = { keys = 2, refused = wrong_type(spans, 'hash') or wrong_type(over, 'zset') }
  function debounce.read(job, arg)
    job.span, job.wait, job.longest = ARGV[arg], ARGV[arg + 1], ARGV[arg + 2]
    job.is_later, job.may_be_later = true, true
    return arg + 3
  end
  function debounce.judge() end
  function debounce.write(job)
    local first, waiting = string.match(redis.call('HGET', spans, job.span) or '', '^(%S+) (.*)$')
    local began = now
    local waits = waiting and redis.call('ZSCORE', schedule, waiting)
    if waits then
      began = tonumber(first)
    end
    local at = now + job.wait
    if job.longest ~= '' then
      at = math.min(at, began + job.longest)
    end
    at = string.format('%.6f', at)
    redis.call('ZADD', schedule, at, job.text)
    redis.call('ZADD', over, math.ceil(at + KEPT), job.span)
    redis.call('HSET', spans, job.span, string.format('%.6f', began) .. ' ' .. job.text)
    if waits and waiting ~= job.text then
      redis.call('ZREM', schedule, waiting)
    end
    return 't' .. at
  end
  function debounce.note() end
  return debounce
end
