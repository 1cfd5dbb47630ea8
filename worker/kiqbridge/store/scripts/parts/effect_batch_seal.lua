-- include effect_batch_fire
-- include wrong_type
-- All that its maker adds to a batch is in it: from now on it may announce what becomes of it. Keys: as
-- effect_batch_fire. Arguments: its id, now (epoch seconds), seconds to keep it while it may change, seconds to keep
-- it after its success. Answers the number of ends that were added.
local function effect_batch_seal(keys, args)
  local refused = wrong_type(keys[1], 'hash') or wrong_type(keys[2], 'hash') or wrong_type(keys[3], 'zset')
    or wrong_type(keys[4], 'zset')
  if refused then
    return refused.err
  end
  if redis.call('EXISTS', keys[1]) == 0 then
    return 'GONE'
  end
  redis.call('HSET', keys[1], 'sealed', 1)
  return effect_batch_fire(keys, args[1], args[2], args[3], args[4])
end
