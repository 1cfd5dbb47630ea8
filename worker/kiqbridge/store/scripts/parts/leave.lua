-- include add_twin
-- include each_effect
-- include effect_add
-- include effect_ledger
-- include wrong_type
-- How a job leaves the place where it was, however it ends: it is added to a sorted set, and the effects of its end are
-- made (engine/settle/ending.py). A new one is a part that is included here. The caller removes it from its place last.

-- Passes over the effects of an end. Answers the error to return before anything is written if one of them cannot be
-- made, else nil; and the key and the argument that follow them.
local function check_ending(key, i)
  local refused
  key, i = each_effect(key, i, function(name, keys)
    if name == 'add' then
      refused = refused or wrong_type(keys[1], 'zset')
    end
  end)
  return refused, key, i
end

-- Adds `text` to `target`, beside its twins, unless that is nil, and applies the effects at `key` and `i`. Answers
-- whether all of them were applied, and the key and the argument that follow them.
local function leave(target, score, text, key, i)
  if target then
    add_twin(target, score, text)
  end
  local is_complete = true
  key, i = each_effect(key, i, function(name, keys, args)
    is_complete = EFFECTS[name](keys, args) == 1 and is_complete
  end)
  return is_complete, key, i
end
