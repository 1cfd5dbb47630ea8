#!lua
-- Add what one process measured to histograms and hashes, once for each number.
-- No allow-oom: with memory full it is refused as a whole before anything is written.
-- KEYS 1 number of the last flush of this process, then the histograms and hashes
-- ARGV 1 number of this flush, 2 seconds to remember it, then for each further key:
--      'histogram' or 'hash', seconds to keep it, how many counters, and for each its index or
--      field and what is added
-- Returns one text for each key that cannot take it, such as one of a foreign type.
-- Repeated, or delivered late: adds nothing.
-- See protocol §12.2.
-- include flush_once
if is_flushed() then
  return {}
end
local errors = {}
local place = 3
for i = 2, #KEYS do
  local kind, ttl, count = ARGV[place], ARGV[place + 1], tonumber(ARGV[place + 2])
  local first, last = place + 3, place + 1 + 2 * count
  local failed
  if kind == 'histogram' then
    local command = {'BITFIELD', KEYS[i], 'OVERFLOW', 'SAT'}
    for j = first, last, 2 do
      for _, word in ipairs({'INCRBY', 'u16', '#' .. ARGV[j], ARGV[j + 1]}) do
        command[#command + 1] = word
      end
    end
    failed = redis.pcall(unpack(command)).err
  else
    for j = first, last, 2 do
      local reply = redis.pcall('HINCRBY', KEYS[i], ARGV[j], ARGV[j + 1])
      failed = failed or (type(reply) == 'table' and reply.err)
    end
  end
  if failed then
    errors[#errors + 1] = KEYS[i] .. ': ' .. failed
  else
    redis.call('EXPIRE', KEYS[i], ttl)
  end
  place = last + 2
end
note_flushed()
return errors
