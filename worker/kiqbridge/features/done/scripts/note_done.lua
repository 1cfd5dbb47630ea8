#!lua
-- Note executions that have ended, and forget the oldest beyond the bounds: of each class and kind, and in all.
-- KEYS 1 when each job ended last (sorted set: jid), 2 by class, kind and time (sorted set, all of score 0),
--      3 records (hash: jid)
-- ARGV 1 most of a class and kind, 2 most in all, 3 most bytes of a record, 4 seconds to keep the keys, then for each
--      execution: class and kind with a zero byte between them, jid, milliseconds of its end in 15 digits, its line
-- Returns how many were noted.
-- Repeated: a line that a record has is not added again.
-- See reliability §17.
-- include wrong_type
local refused = wrong_type(KEYS[1], 'zset') or wrong_type(KEYS[2], 'zset') or wrong_type(KEYS[3], 'hash')
if refused then
  return refused
end
local function forget(jids)
  if #jids == 0 then
    return
  end
  local members = {}
  for _, text in ipairs(redis.call('HMGET', KEYS[3], unpack(jids))) do
    members[#members + 1] = text and string.match(text, '^[^\n]*') or nil
  end
  if #members > 0 then
    redis.call('ZREM', KEYS[2], unpack(members))
  end
  redis.call('HDEL', KEYS[3], unpack(jids))
  redis.call('ZREM', KEYS[1], unpack(jids))
end
-- One of the keys was evicted or deleted: what is left of the others cannot be bounded.
local size = redis.call('ZCARD', KEYS[1])
if size ~= redis.call('HLEN', KEYS[3]) or size ~= redis.call('ZCARD', KEYS[2]) then
  redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3])
end
-- Each command costs more than what it does, so each is sent once for all executions.
local most_bytes, places, noted = tonumber(ARGV[3]), {}, 0
local jids, members, ats, lines_of = {}, {}, {}, {}
for i = 5, #ARGV, 4 do
  local jid = ARGV[i + 1]
  if not members[jid] then
    jids[#jids + 1] = jid
  end
  ats[jid], members[jid] = ARGV[i + 2], ARGV[i] .. '\0' .. ARGV[i + 2] .. '\0' .. jid
  places[ARGV[i]] = true
end
local former = {}
for k, text in ipairs(redis.call('HMGET', KEYS[3], unpack(jids))) do
  local cut = text and string.find(text, '\n', 1, true)
  former[#former + 1] = cut and string.sub(text, 1, cut - 1) or nil
  lines_of[jids[k]] = cut and string.sub(text, cut) or ''
end
for i = 5, #ARGV, 4 do
  local jid, line = ARGV[i + 1], '\n' .. ARGV[i + 3]
  local lines = lines_of[jid]
  if not string.find(lines .. '\n', line .. '\n', 1, true) then
    lines, noted = lines .. line, noted + 1
  end
  while #lines > most_bytes do
    local following = string.find(lines, '\n', 2, true)
    if not following then
      break
    end
    lines = string.sub(lines, following)
  end
  lines_of[jid] = lines
end
local records, times, sorted = {}, {}, {}
for k, jid in ipairs(jids) do
  local member = members[jid]
  records[2 * k - 1], records[2 * k] = jid, member .. lines_of[jid]
  times[2 * k - 1], times[2 * k] = ats[jid], jid
  sorted[2 * k - 1], sorted[2 * k] = 0, member
end
if #former > 0 then
  redis.call('ZREM', KEYS[2], unpack(former))
end
redis.call('HSET', KEYS[3], unpack(records))
redis.call('ZADD', KEYS[1], unpack(times))
redis.call('ZADD', KEYS[2], unpack(sorted))
local function surplus(count, most)
  return math.min(count - tonumber(most), 1000) -- where the bound was made smaller, the next calls go on
end
for place in pairs(places) do
  local first, last = '[' .. place .. '\0', '(' .. place .. '\1'
  local many = surplus(redis.call('ZLEXCOUNT', KEYS[2], first, last), ARGV[1])
  if many > 0 then
    local over = redis.call('ZRANGE', KEYS[2], first, last, 'BYLEX', 'LIMIT', 0, many)
    for k, member in ipairs(over) do
      over[k] = string.match(member, '[^%z]*$')
    end
    forget(over)
  end
end
local many = surplus(redis.call('ZCARD', KEYS[1]), ARGV[2])
if many > 0 then
  forget(redis.call('ZRANGE', KEYS[1], 0, many - 1))
end
for i = 1, 3 do
  redis.call('EXPIRE', KEYS[i], ARGV[4])
end
return noted
