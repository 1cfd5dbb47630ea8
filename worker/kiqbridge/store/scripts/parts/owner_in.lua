-- The jid in the value of a lock, and until when, as text; nothing when it is free or its time is over at `now`.
local function owner_in(value, now)
  local till, jid = string.match(value or '', '^(%d+) (.*)$')
  if till and tonumber(till) > now then
    return jid, till
  end
end
