-- include each_effect
-- include effects
-- include wrong_type
-- The error to return when a key of an effect holds a value of another type, else nil.
local function wrong_keys(name, keys)
  for n, key in ipairs(keys) do
    local refused = wrong_type(key, TYPES[name][n])
    if refused then
      return refused
    end
  end
end
-- Apply effects (each_effect.lua), those whose parts the script includes. A guard that answers 0 skips those behind it, as
-- many as it says. Answers a list of what each answers, the text of an error when a key has a value of another type, and 0
-- for one that was skipped; and the key and the argument that follow them.
local function apply_effects(key, i)
  local answers, skipped = {}, 0
  key, i = each_effect(key, i, function(name, keys, args)
    local answer = 0
    if skipped > 0 then
      skipped = skipped - 1
    else
      local refused = wrong_keys(name, keys)
      answer = refused and refused.err or EFFECTS[name](keys, args)
      if name == 'guard' and answer == 0 then
        skipped = tonumber(args[3])
      end
    end
    answers[#answers + 1] = answer
  end)
  return answers, key, i
end
