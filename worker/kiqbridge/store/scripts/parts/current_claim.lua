-- Whether the last claim of a claimer, in the hash KEYS[2], has this number. After a later claim the
-- call was delivered late, and the claimer's list may hold the same bytes anew (reliability §1, rule 4).
local function is_current(claimer, number)
  local last = redis.call('HGET', KEYS[2], claimer)
  return last and string.sub(last, 1, #number + 1) == number .. ' '
end
