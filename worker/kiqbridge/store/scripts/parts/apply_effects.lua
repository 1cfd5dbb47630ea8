-- include each_effect
-- include effect_push
-- include effect_add
-- include effect_batch_make
-- include effect_batch_jobs
-- include effect_batch_seal
-- include effect_batch_end
-- include effect_guard
-- include effect_unlock
-- include effect_result
-- Apply effects of locks, batches and chains (each_effect.lua). A guard that answers 0 skips those behind it, as many as
-- it says. Answers a list of what each answers, 0 for one that was skipped, and the key and the argument that follow them.
local function apply_effects(key, i)
  local effects = {
    push = effect_push,
    add = effect_add,
    batch_make = effect_batch_make,
    batch_jobs = effect_batch_jobs,
    batch_seal = effect_batch_seal,
    batch_end = effect_batch_end,
    guard = effect_guard,
    unlock = effect_unlock,
    result = effect_result,
  }
  local answers, skipped = {}, 0
  key, i = each_effect(key, i, function(name, keys, args)
    local answer = 0
    if skipped > 0 then
      skipped = skipped - 1
    else
      answer = effects[name](keys, args)
      if name == 'guard' and answer == 0 then
        skipped = tonumber(args[3])
      end
    end
    answers[#answers + 1] = answer
  end)
  return answers, key, i
end
