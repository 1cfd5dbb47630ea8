-- include wrong_type
-- Add a member to a sorted set. Keys: the sorted set. Arguments: its score, the member. Answers 1. A second time changes
-- nothing.
local function effect_add(keys, args)
  local refused = wrong_type(keys[1], 'zset')
  if refused then
    return refused.err
  end
  redis.call('ZADD', keys[1], args[1], args[2])
  return 1
end
