#!lua flags=allow-oom
-- Let a lock with a time be valid for longer, while its holder lives.
-- KEYS 1 locks (hash, token -> SINCE UNTIL OWNER in microseconds)
-- ARGV 1 token, 2 how long it is valid from now on (microseconds), 3 TTL of the key (milliseconds)
-- Returns 1, or 0 when there is no such lock: it was void and was removed, or the limiter was reset.
-- Repeated: renews it once more.
-- See docs/how_to/limiters.md.
-- include limit_now
local lock = redis.call('HGET', KEYS[1], ARGV[1])
local since, owner = string.match(lock or '', '^(%d+) %d+ (.*)$')
if not since then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], since .. ' ' .. whole(limit_now() + ARGV[2]) .. ' ' .. owner)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
