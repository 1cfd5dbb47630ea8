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
local function forget(jid)
  local text = redis.call('HGET', KEYS[3], jid)
  if text then
    redis.call('ZREM', KEYS[2], string.match(text, '^[^\n]*'))
    redis.call('HDEL', KEYS[3], jid)
  end
  redis.call('ZREM', KEYS[1], jid)
end
-- One of the keys was evicted or deleted: what is left of the others cannot be bounded.
local size = redis.call('ZCARD', KEYS[1])
if size ~= redis.call('HLEN', KEYS[3]) or size ~= redis.call('ZCARD', KEYS[2]) then
  redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3])
end
local most_bytes, places, noted = tonumber(ARGV[3]), {}, 0
for i = 5, #ARGV, 4 do
  local place, jid, at, line = ARGV[i], ARGV[i + 1], ARGV[i + 2], '\n' .. ARGV[i + 3]
  local member, lines = place .. '\0' .. at .. '\0' .. jid, ''
  local text = redis.call('HGET', KEYS[3], jid)
  local cut = text and string.find(text, '\n', 1, true)
  if cut then
    redis.call('ZREM', KEYS[2], string.sub(text, 1, cut - 1))
    lines = string.sub(text, cut)
  end
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
  redis.call('HSET', KEYS[3], jid, member .. lines)
  redis.call('ZADD', KEYS[1], at, jid)
  redis.call('ZADD', KEYS[2], 0, member)
  places[place] = true
end
local function surplus(count, most)
  return math.min(count - tonumber(most), 1000) -- where the bound was made smaller, the next calls go on
end
for place in pairs(places) do
  local first, last = '[' .. place .. '\0', '(' .. place .. '\1'
  local many = surplus(redis.call('ZLEXCOUNT', KEYS[2], first, last), ARGV[1])
  if many > 0 then
    for _, member in ipairs(redis.call('ZRANGE', KEYS[2], first, last, 'BYLEX', 'LIMIT', 0, many)) do
      forget(string.match(member, '[^%z]*$'))
    end
  end
end
local many = surplus(redis.call('ZCARD', KEYS[1]), ARGV[2])
if many > 0 then
  for _, jid in ipairs(redis.call('ZRANGE', KEYS[1], 0, many - 1)) do
    forget(jid)
  end
end
for i = 1, 3 do
  redis.call('EXPIRE', KEYS[i], ARGV[4])
end
return noted
