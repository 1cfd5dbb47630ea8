#!lua flags=allow-oom
-- Hold the next jobs of a queue that go to another shard: moved from the queue, or from a sorted set, into a list,
-- which is a batch with a number. If there is a batch already, it is answered again.
-- What is kept on this shard about some jobs cannot go with them: members of a batch or a chain, and jobs of an
-- occurrence of a schedule. They stay; in a queue they go behind what is looked at after them.
-- KEYS 1 queue (list) or sorted set, 2 the batch (list), 3 numbers of the last batches (hash: queue → number)
-- ARGV 1 queue, 2 text that no other batch has, 3 where it goes: kind of the place and shard, 4 a number that the
--      batch must exceed, 5 jobs at most, 6 bytes at most, 7 'queue'; or 'set', then its members; or 'number', then the
--      mark of a batch that is to get a higher number
-- Returns {how many were looked at, how many of them stay, the batch…}: first its mark, `NUMBER TEXT KIND SHARD`, then
-- its jobs, the next to be performed first; of a set each behind its score. Without a mark: there is nothing to move.
-- Repeated: {0, 0, the same batch}.
-- See reliability §16.
-- include wrong_type
local refused = wrong_type(KEYS[1], ARGV[7] == 'set' and 'zset' or 'list') or wrong_type(KEYS[2], 'list')
  or wrong_type(KEYS[3], 'hash')
if refused then
  return refused
end

local function next_number()
  local last = math.max(tonumber(redis.call('HGET', KEYS[3], ARGV[1]) or 0), tonumber(ARGV[4]))
  redis.call('HSET', KEYS[3], ARGV[1], last + 1)
  return string.format('%.0f', last + 1)
end

local function answer(looked, stayed)
  local found = {looked, stayed}
  for _, each in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do
    found[#found + 1] = each
  end
  return found
end

if redis.call('EXISTS', KEYS[2]) == 1 then
  if ARGV[7] == 'number' and redis.call('LINDEX', KEYS[2], 0) == ARGV[8] then
    redis.call('LSET', KEYS[2], 0, next_number() .. string.match(ARGV[8], ' .*$'))
  end
  return answer(0, 0)
end
if ARGV[7] == 'number' then
  return {0, 0}
end

-- A text that is too long to be looked into stays.
local function stays(text)
  if not (string.find(text, '"flow"', 1, true) or string.find(text, '"tick"', 1, true)) then
    return false
  end
  if #text > 100000 then
    return true
  end
  local is_read, job = pcall(cjson.decode, text)
  if not is_read or type(job) ~= 'table' then
    return false
  end
  local flow = job.flow
  return type(job.tick) == 'table' or type(flow) == 'table' and (flow.bid ~= nil or flow.next ~= nil)
end

local most, bytes = tonumber(ARGV[5]), tonumber(ARGV[6])
local going, staying, looked, size = {}, {}, 0, 0
if ARGV[7] == 'set' then
  for i = 8, #ARGV do
    local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
    if score then
      looked = looked + 1
      if stays(ARGV[i]) then
        staying[#staying + 1] = ARGV[i]
      else
        going[#going + 1] = score
        going[#going + 1] = ARGV[i]
      end
    end
  end
else
  -- Few at first: a text may be long.
  local step, full = math.min(20, most), false
  while not full and looked < most do
    local texts = redis.call('LRANGE', KEYS[1], -looked - step, -looked - 1)
    for i = #texts, 1, -1 do
      size = size + #texts[i]
      if looked > 0 and size > bytes then
        full = true
        break
      end
      looked = looked + 1
      local list = stays(texts[i]) and staying or going
      list[#list + 1] = texts[i]
    end
    full = full or #texts < step
    local largest = math.max(1, math.floor(size / math.max(looked, 1)))
    step = math.max(1, math.min(step * 2, most - looked, math.floor((bytes - size) / largest)))
  end
end
if #going > 0 then
  redis.call('RPUSH', KEYS[2], next_number() .. ' ' .. ARGV[2] .. ' ' .. ARGV[3])
  for i = 1, #going do
    redis.call('RPUSH', KEYS[2], going[i])
  end
end
if ARGV[7] == 'set' then
  for i = 2, #going, 2 do
    redis.call('ZREM', KEYS[1], going[i])
  end
elseif looked > 0 then
  for i = 1, #staying do
    redis.call('LPUSH', KEYS[1], staying[i])
  end
  redis.call('LTRIM', KEYS[1], 0, -looked - 1)
end
return answer(looked, #staying)
