-- What carries out an effect, by its name: a function of its keys and arguments; and the types of its keys, which are
-- looked at before. A part `effect_NAME.lua` adds to both.
local EFFECTS, TYPES = {}, {}
