-- include owner_in
-- The jid that owns a lock, and until when, by its name.
local function lock_owner(locks, name, now)
  return owner_in(redis.call('HGET', locks, name), now)
end
-- Give a lock to a job, until a time; it is looked at then and then.
local function take_lock(locks, looks, name, jid, till, look)
  redis.call('ZADD', looks, look, name)
  redis.call('HSET', locks, name, string.format('%d %s', till, jid))
end
-- Free a lock.
local function free_lock(locks, looks, name)
  redis.call('HDEL', locks, name)
  redis.call('ZREM', looks, name)
end
