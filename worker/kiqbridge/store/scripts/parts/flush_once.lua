-- Flushes of one process are numbered, so that one that is repeated or arrives late adds nothing. KEYS[1]
-- holds the number of the last one for ARGV[2] seconds; ARGV[1] is the number of this one.
local function is_flushed()
  return tonumber(redis.call('GET', KEYS[1]) or 0) >= tonumber(ARGV[1])
end
local function note_flushed()
  redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
end
