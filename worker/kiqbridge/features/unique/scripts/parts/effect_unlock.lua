-- include effects
-- include lock_owner
-- Free the lock of a job that has ended. Keys: locks (hash), when they are looked at (sorted set), jobs that were
-- replaced (sorted set). Arguments: name of the lock, the jid. Answers 1, or 0: another job owns it, or none.
TYPES.unlock = {'hash', 'zset', 'zset'}
function EFFECTS.unlock(keys, args)
  redis.call('ZREM', keys[3], args[2])
  local owner = string.match(redis.call('HGET', keys[1], args[1]) or '', '^%d+ (.*)$')
  if owner ~= args[2] then
    return 0
  end
  free_lock(keys[1], keys[2], args[1])
  return 1
end
