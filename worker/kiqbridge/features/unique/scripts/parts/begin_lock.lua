-- include begins
-- include wrong_type
-- include lock_owner
-- Whether a unique job begins: not if another one has replaced it, nor, if it takes its lock only now, while
-- another one owns that. One whose lock holds until it begins frees it.
-- keys 1 locks (hash: name → 'UNTIL JID'), 2 when each is looked at (sorted set), 3 jobs that were replaced (sorted
--      set)
-- args 1 name of its lock, 2 jid, 3 start or done: when the lock is freed, 4 seconds for which it is taken now,
--      '' = the push took it, 5 seconds until a lock is looked at
-- Answers {'run'}, or {'skipped', 'replaced' or the jid that owns the lock}.
function BEGINS.lock(keys, args)
  local refused = wrong_type(keys[1], 'hash') or wrong_type(keys[2], 'zset') or wrong_type(keys[3], 'zset')
  if refused then
    return refused
  end
  if redis.call('ZSCORE', keys[3], args[2]) then
    return {'skipped', 'replaced'}
  end
  local now = tonumber(redis.call('TIME')[1])
  local owner = lock_owner(keys[1], args[1], now)
  if args[4] ~= '' and owner and owner ~= args[2] then
    return {'skipped', owner}
  end
  if args[3] == 'start' then
    if owner == args[2] then
      free_lock(keys[1], keys[2], args[1])
    end
  elseif args[4] ~= '' and not owner then
    take_lock(keys[1], keys[2], args[1], args[2], math.ceil(now + args[4]), now + args[5])
  end
  return {'run'}
end
