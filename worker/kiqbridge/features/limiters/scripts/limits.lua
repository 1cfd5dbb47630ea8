#!lua flags=no-writes,allow-oom
-- What is taken of limiters now, by the server's clock.
-- KEYS 1 registered incarnations (set), then of each limiter its state and those who wait (sorted set)
-- ARGV of each limiter its kind, limit and interval in microseconds; of a vessel (leaky, points) what drains in a second
-- Returns of each: how much is taken (text), microseconds until all is free again, and until there is room; 0 where
-- that is unknown; how many wait.
-- Repeated: the same again.
-- See docs/how_to/limiters.md.
-- include limit_now
local MANY = 1000
local now = limit_now()
local look = {}
function look.concurrent(key)
  local held = redis.call('HLEN', key)
  if held <= MANY then
    local locks = redis.call('HGETALL', key)
    for i = 2, #locks, 2 do
      local ends, owner = string.match(locks[i], '^%d+ (%d+) (.*)$')
      if owner == '' and tonumber(ends) <= now or owner ~= '' and redis.call('SISMEMBER', KEYS[1], owner or '') == 0 then
        held = held - 1
      end
    end
  end
  return held, 0, 0
end
function look.window(key, limit, interval)
  local first, past = 0, redis.call('LLEN', key) -- newest first: those before `past` are within the interval
  while first < past do
    local middle = math.floor((first + past) / 2)
    if tonumber(redis.call('LINDEX', key, middle)) > now - interval then
      first = middle + 1
    else
      past = middle
    end
  end
  if first == 0 then
    return 0, 0, 0
  end
  local room = first >= limit and redis.call('LINDEX', key, limit - 1) + interval - now or 0
  return first, redis.call('LINDEX', key, 0) + interval - now, room
end
function look.bucket(key, limit, interval)
  local start, count = string.match(redis.call('GET', key) or '', '^(%d+) (%d+)$')
  local left = start and start + interval - now or 0
  if left <= 0 then
    return 0, 0, 0
  end
  return tonumber(count), left, tonumber(count) >= limit and left or 0
end
function look.leaky(key, holds, rate)
  local level, at = string.match(redis.call('GET', key) or '', '^(%S+) (%d+)$')
  level = level and math.max(0, level - math.max(0, now - at) * rate / 1000000) or 0
  return level, level / rate * 1000000, math.max(0, (level + 1 - holds) / rate * 1000000)
end
look.points = look.leaky
local found = {}
for i = 1, #ARGV, 3 do
  local place = 2 * (i - 1) / 3 + 2
  local used, free, room = look[ARGV[i]](KEYS[place], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]))
  found[#found + 1] = { string.format('%.6g', used), math.ceil(free), math.ceil(room),
    redis.call('ZCOUNT', KEYS[place + 1], now / 1000000, '+inf') }
end
return found
