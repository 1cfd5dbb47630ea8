-- The claim of claim.lua, with its KEYS and ARGV; what it returns is what that script returns. `is_notified`: there
-- has just been a push to one of the queues.
local function claim(is_notified)
-- include fence
local sequence = tonumber(ARGV[3])
local stored, queue = 0, ''
local last = redis.call('HGET', KEYS[2], ARGV[2])
if last then
  local gap = string.find(last, ' ', 1, true)
  stored, queue = tonumber(string.sub(last, 1, gap - 1)), string.sub(last, gap + 1)
end
if stored == sequence then
  return {queue, unpack(redis.call('LRANGE', KEYS[3], 0, -1))}
end
if stored + 1 ~= sequence then
  return -2
end
local most, sharers, is_acknowledged, is_repeated = string.match(ARGV[4], '^(%d+)/?(%d*)(!?)(%??)$')
most, sharers = tonumber(most), tonumber(sharers) or 0
-- Before anything is taken: where the server refuses it, the list would be answered again with what comes into it.
if queue ~= '' and is_acknowledged == '' then
  redis.call('DEL', KEYS[4])
end
-- Jobs from the tail of a list, newest first: up to `most`, and as many as have 1 MB together, or one that
-- is longer. How many are read at once follows from the longest seen so far, first of the two at the ends:
-- short jobs are read in one go, long ones in steps that hold a quarter of what is left.
local function tail_of(key, most)
  -- pcall: one key of a foreign type must not keep the other queues from being served
  local jobs = redis.pcall('LRANGE', key, -1, -1)
  if jobs.err and not string.find(jobs.err, '^WRONGTYPE') then
    error(jobs) -- no right: the queues must not look empty
  end
  if most == 1 or #jobs == 0 then
    return jobs
  end
  local far = redis.call('LINDEX', key, -most) or ''
  local n, room, longest = 0, 1000000, math.max(#jobs[1], #far)
  jobs = {}
  while n < most do
    local last = math.min(n + math.max(math.floor(room / (4 * longest)), 1), most)
    local older = redis.call('LRANGE', key, -last, -n - 1)
    local first = 1
    for k = #older, 1, -1 do
      local size = #older[k]
      room = room - size
      if room < 0 and (k < #older or n > 0) then
        first = k + 1
        break
      end
      longest = math.max(longest, size)
    end
    if first == 1 and n == 0 and (last == most or #older < last) then
      return older
    end
    local joined = {unpack(older, first)}
    for k = 1, n do
      joined[#joined + 1] = jobs[k]
    end
    jobs = joined
    if room <= 0 or first > 1 or n + #older < last then
      return jobs
    end
    n = last
  end
  return jobs
end
-- The oldest jobs, up to the first of a class that is left out. A text with such a name in an argument
-- waits as well, which costs time only.
local left_out
for i = #KEYS - 2, #ARGV do
  left_out = left_out or {}
  left_out[ARGV[i]] = true
end
local function up_to_left_out(jobs)
  for i = #jobs, 1, -1 do
    -- job_class: Rails' wrapper has it inside
    for name in string.gmatch(jobs[i], '"j?o?b?_?class"%s*:%s*"([^"]*)"') do
      if left_out[name] then
        return {unpack(jobs, i + 1)}
      end
    end
  end
  return jobs
end
-- Each call from here costs the server more than the command in it: what is asked once is not asked for each
-- queue, and a single job is moved rather than read, added and cut off.
local reply, source, is_moved = {''}, nil, false
-- An idle process asks when there is nothing, or one job: that is found out with one call for all queues.
local last_queue = #KEYS
if #KEYS > 8 and not is_notified and redis.call('EXISTS', unpack(KEYS, 8)) == 0 then
  last_queue = 0
end
local any_special = last_queue > 7 and redis.call('EXISTS', KEYS[5], KEYS[6], KEYS[7]) > 0
local is_plain = not any_special and not left_out
for i = 8, last_queue do
  -- pcall: as in tail_of, which says the rest
  local length, share = most == 1 and 1 or redis.pcall('LLEN', KEYS[i]), most
  if sharers > 0 and type(length) == 'number' then
    share = math.max(math.min(most, math.floor(length / (sharers + 1))), 1)
  end
  local is_one = length ~= 0 and (length == 1 or share == 1)
  local moved = is_plain and is_one and redis.pcall('LMOVE', KEYS[i], KEYS[3], 'RIGHT', 'RIGHT')
  if type(moved) == 'string' then
    reply, source, is_moved = {ARGV[i - 3], moved}, KEYS[i], true
    break
  end
  -- An error has moved nothing: then it is read as any other queue.
  local is_read = length ~= 0 and (not is_one or not is_plain or moved)
  local jobs = is_read and tail_of(KEYS[i], share) or {}
  if left_out and #jobs > 0 then
    jobs = up_to_left_out(jobs)
  end
  if #jobs > 0 and not (any_special and redis.call('SISMEMBER', KEYS[5], ARGV[i - 3]) == 1) then
    -- One job at a time after a recovery: what kills its process must not take neighbours along.
    -- For a minute, and however late for those that came back, which lie at this end of the queue.
    -- pcall again: here it is no reason to claim nothing
    if any_special then
      local alone = tonumber(redis.pcall('HGET', KEYS[7], KEYS[i]))
      if alone or redis.pcall('SISMEMBER', KEYS[6], ARGV[i - 3]) == 1 then
        jobs = {jobs[#jobs]}
      end
      if alone then
        -- Others, such as Ruby, take jobs without counting: never more than there are.
        local left = math.min(alone, redis.call('LLEN', KEYS[i])) - 1
        if left > 0 then
          redis.call('HSET', KEYS[7], KEYS[i], left)
        else
          redis.call('HDEL', KEYS[7], KEYS[i])
        end
      end
    end
    redis.call('RPUSH', KEYS[3], unpack(jobs))
    redis.call('LTRIM', KEYS[i], 0, -(#jobs + 1))
    reply, source = {ARGV[i - 3], unpack(jobs)}, KEYS[i]
    break
  end
end
if not source and is_repeated == '' then
  return reply
end
local noted = redis.pcall('HSET', KEYS[2], ARGV[2], ARGV[3] .. ' ' .. reply[1])
if type(noted) == 'table' then
  -- The server refuses it, and a later claim would delete what lies in a list of no number: back with it, by the
  -- commands by which it came.
  if is_moved then
    redis.call('LMOVE', KEYS[3], source, 'RIGHT', 'RIGHT')
  elseif source then
    redis.call('RPUSH', source, unpack(reply, 2))
    redis.call('LTRIM', KEYS[3], 1, 0)
  end
  return noted
end
return reply
end
