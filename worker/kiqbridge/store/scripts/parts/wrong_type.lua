-- The error to return when a key holds a value of another type than `wanted`, else nil. To be looked at
-- before the first write: an error in the middle keeps what was done (reliability §1, rule 1). A key that was found
-- right is not looked at again in the same script.
local found_right = {}
local function wrong_type(key, wanted)
  if found_right[key] == wanted then
    return nil
  end
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= wanted then
    return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. found .. ', not a ' .. wanted)
  end
  found_right[key] = wanted
end
