#!lua flags=allow-oom
-- Take one of the locks of a concurrent limiter. A lock of a worker is void once the worker's incarnation is not
-- registered any more, which is when its jobs are given back; others are void when their time is over. What is void
-- is removed where the limit is reached, so that a check costs one look-up else; of many locks once a second. A lock
-- whose time ends later than any was written to end is valid for that time from now on: the server's clock was set back.
-- KEYS 1 locks (hash, token -> SINCE UNTIL OWNER in microseconds), 2 registered incarnations (set), 3 when many locks
--      were looked at last (string, microseconds)
-- ARGV 1 token, 2 limit, 3 owner: an incarnation, or '' for a lock with a time, 4 how long the lock is valid
--      (microseconds), 5 TTL of the key (milliseconds)
-- Returns {1, locks}, or {0, locks} when the limit is reached.
-- Repeated: a token that has its lock keeps it, and no second one is taken.
-- See docs/how_to/limiters.md.
-- include limit_now
local MANY, LOOK_US = 100, 1000000
local now, limit = limit_now(), tonumber(ARGV[2])
local held = redis.call('HLEN', KEYS[1])
local is_ours = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
if not is_ours and held >= limit then
  if held > MANY then
    local passed = now - tonumber(redis.call('GET', KEYS[3]) or 0)
    if passed >= 0 and passed < LOOK_US then
      return {0, held}
    end
    redis.call('SET', KEYS[3], whole(now), 'PX', 60000)
  end
  local locks, registered = redis.call('HGETALL', KEYS[1]), {}
  for i = 1, #locks, 2 do
    local ends, owner = string.match(locks[i + 1], '^%d+ (%d+) (.*)$')
    local lives
    if owner == '' then
      lives = tonumber(ends) > now
      if tonumber(ends) > now + ARGV[4] then
        redis.call('HSET', KEYS[1], locks[i], whole(now) .. ' ' .. whole(now + ARGV[4]) .. ' ')
      end
    elseif owner then
      if registered[owner] == nil then
        registered[owner] = redis.call('SISMEMBER', KEYS[2], owner) == 1
      end
      lives = registered[owner]
    end
    if not lives then
      redis.call('HDEL', KEYS[1], locks[i])
      held = held - 1
    end
  end
  if held >= limit then
    return {0, held}
  end
end
redis.call('HSET', KEYS[1], ARGV[1], whole(now) .. ' ' .. whole(now + ARGV[4]) .. ' ' .. ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return {1, is_ours and held or held + 1}
