-- include effects
-- include batch_fire
-- All that its maker adds to a batch is in it: from now on it may announce what becomes of it. Keys: as
-- batch_fire. Arguments: its id, now (epoch seconds), seconds to keep it while it may change, seconds to keep
-- it after its success. Answers the number of ends that were added.
TYPES.batch_seal = {'hash', 'hash', 'zset', 'zset'}
function EFFECTS.batch_seal(keys, args)
  if redis.call('EXISTS', keys[1]) == 0 then
    return 'GONE'
  end
  redis.call('HSET', keys[1], 'sealed', 1)
  return batch_fire(keys, args[1], args[2], args[3], args[4])
end
