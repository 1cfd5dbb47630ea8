-- Rules of features: each defines `rule_of.NAME(key, now, exact, schedule, most)`, a table: `keys`, how many of KEYS behind
-- `key` are its own; `refused`, an error, or nil; and functions. `read(job, arg)` reads what it has of a job, and answers
-- the number of the next argument; `judge(job)` sets `job.answer` if the job is not to be pushed (and `job.owner`, the jid
-- that its guard remembers), or answers a text that refuses all of them; `write(job)` answers nothing if the job is pushed as
-- any, or what it has done instead; `note()` writes what is left, once.
local rule_of = {}
