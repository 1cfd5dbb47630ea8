-- include effects
-- Rows of steps that are added to a batch, for who looks at it. Keys: the batch (hash), its members (hash). Arguments: the
-- rows as a JSON list, the name of the first step, the most bytes of all rows. Nothing is added if that step is no member, or
-- known already. Answers whether they were added.
TYPES.batch_outline = {'hash', 'hash'}
function EFFECTS.batch_outline(keys, args)
  local known = redis.call('HGET', keys[1], 'outline') or '[]'
  local is_known = string.find(known, args[2], 1, true)
  if is_known or #known + #args[1] > tonumber(args[3]) or redis.call('HEXISTS', keys[2], args[2]) == 0 then
    return 0
  end
  local rows = known == '[]' and args[1] or string.sub(known, 1, -2) .. ',' .. string.sub(args[1], 2)
  redis.call('HSET', keys[1], 'outline', rows)
  return 1
end
