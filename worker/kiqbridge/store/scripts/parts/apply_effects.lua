-- include effect_push
-- include effect_report
-- include effect_batch_make
-- include effect_batch_jobs
-- include effect_batch_seal
-- include effect_batch_end
-- include effect_guard
-- include effect_unlock
-- include effect_result
-- Apply effects, whose keys begin at KEYS[key] and whose arguments at ARGV[i]: for each its name, number of its
-- keys, number of its arguments, its arguments. A guard that answers 0 skips those behind it, as many as it says.
-- Answers a list of what each answers, 0 for one that was skipped.
local function apply_effects(key, i)
  local effects = {
    push = effect_push,
    report = effect_report,
    batch_make = effect_batch_make,
    batch_jobs = effect_batch_jobs,
    batch_seal = effect_batch_seal,
    batch_end = effect_batch_end,
    guard = effect_guard,
    unlock = effect_unlock,
    result = effect_result,
  }
  local answers, skipped = {}, 0
  while i <= #ARGV do
    local name, keys, args = ARGV[i], {}, {}
    for n = 1, tonumber(ARGV[i + 1]) do
      keys[n] = KEYS[key]
      key = key + 1
    end
    local first = i + 3
    for n = 1, tonumber(ARGV[i + 2]) do
      args[n] = ARGV[first + n - 1]
    end
    i = first + #args
    if skipped > 0 then
      skipped = skipped - 1
      answers[#answers + 1] = 0
    else
      local answer = effects[name](keys, args)
      if name == 'guard' and answer == 0 then
        skipped = tonumber(args[3])
      end
      answers[#answers + 1] = answer
    end
  end
  return answers
end
