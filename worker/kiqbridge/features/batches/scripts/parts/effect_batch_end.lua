-- include effects
-- include batch_fire
-- Count the end of a member. Keys: as batch_fire. Arguments: as effect_batch_seal, then the member or '',
-- `d` for done and `f` for ended without success, `1` when it died, then members to add, which count before the end
-- does. A member that was done once stays done, and dies no more; one that is not known yet is added. Answers the number of ends that
-- were added.
TYPES.batch_end = {'hash', 'hash', 'zset', 'zset'}
function EFFECTS.batch_end(keys, args)
  if redis.call('EXISTS', keys[1]) == 0 then
    return 0
  end
  local total, pending, failed = 0, 0, 0
  local made = {}
  for i = 8, #args do
    if redis.call('HSETNX', keys[2], args[i], 'p') == 1 then
      made[#made + 1] = args[i]
    end
  end
  total, pending = #made, #made
  local is_new = total > 0
  local member, state = args[5], args[6]
  local former = member ~= '' and redis.call('HGET', keys[2], member)
  local function count(field, by)
    local answer = redis.pcall('HINCRBY', keys[1], field, by)
    if type(answer) ~= 'table' then
      return answer
    end
    -- Refused, as the first of these is: a member that stands as ended, and was not counted, never would be.
    if former then
      redis.call('HSET', keys[2], member, former)
    end
    for _, name in ipairs(made) do
      redis.call('HDEL', keys[2], name)
    end
    error(answer)
  end
  if member ~= '' and former ~= 'd' and former ~= state then
    redis.call('HSET', keys[2], member, state)
    if not former then
      total, is_new = total + 1, true
      made[#made + 1] = member
    elseif former ~= 'f' then
      pending = pending - 1
      if former == 'm' then -- moved away, and run here too, since its worker was given up
        count('away', -1)
      end
    end
    if state == 'f' then
      failed = failed + 1
    elseif former == 'f' then
      failed = failed - 1
    end
  end
  if total ~= 0 then
    count('total', total)
  end
  if failed ~= 0 then
    count('failed', failed)
  end
  local died = args[7] == '1' and former ~= 'd'
  if died then
    redis.call('HSET', keys[1], 'dead', 1)
  end
  if is_new then -- of a class that is not known here
    redis.call('HSET', keys[1], 'class', '')
  end
  if is_new and redis.call('PTTL', keys[2]) == -1 then
    redis.call('EXPIRE', keys[2], args[3])
  end
  local left = pending ~= 0 and count('pending', pending) or 0
  if left > 0 and not died then
    return 0 -- most ends are such: there is nothing to announce
  end
  return batch_fire(keys, args[1], args[2], args[3], args[4])
end
