-- What answers whether a job begins, by its name: a function of its keys and arguments. It answers {'run', more…}, or how the
-- job ends instead and more, or an error. A part `begin_NAME.lua` adds to it.
local BEGINS = {}
