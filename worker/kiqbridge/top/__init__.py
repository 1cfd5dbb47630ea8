"""`kiqbridge top`: the operator's screens in a terminal, on top of `kiqbridge.api`.

The command line starts it. One thread reads a frame each second and another acts, so that keys answer while
Redis does not. What anybody wrote into Redis is shown as text: it must never reach the terminal as an escape
sequence, nor Rich as markup. It changes nothing without the role for it and a question before.
"""
