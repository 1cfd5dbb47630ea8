-- include wrong_type
-- include push
-- Argument `number` of job `i`: each job has seven of them, behind the two of the script.
local function field(i, number)
  return ARGV[7 * i - 5 + number]
end
-- The error for a key of a job, behind the first so many keys, that is of another type than its push needs;
-- `score` is the number of that argument.
local function wrong_target(first, score)
  for i = 1, tonumber(ARGV[2]) do
    local refused = wrong_type(KEYS[i + first], type_for(field(i, score)))
    if refused then
      return refused
    end
  end
end
