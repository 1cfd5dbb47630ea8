#!lua flags=allow-oom
-- Whether a claimed job begins, as far as only the server knows: each ask is answered by the part begin_NAME of its
-- name, one after another, until one answers that the job does not begin.
-- KEYS those of each ask
-- ARGV 1 number of asks, then of each its name, numbers of its keys and arguments, and its arguments (each_effect)
-- Returns the answers of those that were asked: {'run', more…}, or how the job ends instead and more; or an error,
--         which keeps no job from beginning.
-- Repeated: the same.
-- See reliability §14.
-- include begin_run
-- include each_effect
local answers, may_begin = {}, true
each_effect(1, 1, function(name, keys, args)
  if may_begin then
    local answer = BEGINS[name](keys, args)
    answers[#answers + 1] = answer
    may_begin = answer.err or answer[1] == 'run'
  end
end)
return answers
