-- Call act(name, keys, args) for each of some effects: ARGV[i] is their number, then come for each its name, number of
-- its keys, number of its arguments, its arguments; their keys begin at KEYS[key]. Answers the key and the argument
-- that follow them.
local function each_effect(key, i, act)
  local at = i + 1
  for _ = 1, tonumber(ARGV[i]) do
    local keys, args = {}, {}
    for n = 1, tonumber(ARGV[at + 1]) do
      keys[n] = KEYS[key]
      key = key + 1
    end
    for n = 1, tonumber(ARGV[at + 2]) do
      args[n] = ARGV[at + 2 + n]
    end
    act(ARGV[at], keys, args)
    at = at + 3 + #args
  end
  return key, at
end
