#!lua flags=allow-oom
-- Pour into a vessel that drains at a constant rate, if it does not overflow: the limiters leaky and points.
-- KEYS 1 how full it was, and when in microseconds (string, LEVEL TIME)
-- ARGV 1 how much it holds, 2 how much drains in a second, 3 how much is poured in, 4 '1' = in any case: a
--      correction, which may be below 0, and may leave it fuller than it holds
-- Returns {1, 0}, or {0, microseconds until there is room for it}.
-- Repeated: pours in once more; then less goes through than the limit allows, never more. A correction below 0 is
-- not to be repeated.
-- See docs/how_to/limiters.md.
-- include limit_now
local now, holds, rate, amount = limit_now(), tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local level, at = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+) (%d+)$')
level, at = tonumber(level or 0), tonumber(at or now)
level = math.max(0, level - math.max(0, now - at) * rate / 1000000)
local overflows = ARGV[4] ~= '1' and level + amount > holds + 0.000001
if not overflows then
  level = math.max(0, level + amount)
end
if not overflows or at > now then -- the server's clock was set back: it drains from now on
  local empty_ms = math.ceil(level / rate * 1000) + 1
  redis.call('SET', KEYS[1], string.format('%.17g', level) .. ' ' .. whole(now), 'PX', empty_ms)
end
if overflows then
  return {0, math.ceil((level + amount - holds) / rate * 1000000)}
end
return {1, 0}
