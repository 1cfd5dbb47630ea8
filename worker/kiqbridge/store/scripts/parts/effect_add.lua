-- include effects
-- Add a member to a sorted set. Keys: the sorted set. Arguments: its score, the member. Answers 1. A second time changes
-- nothing.
TYPES.add = {'zset'}
function EFFECTS.add(keys, args)
  redis.call('ZADD', keys[1], args[1], args[2])
  return 1
end
