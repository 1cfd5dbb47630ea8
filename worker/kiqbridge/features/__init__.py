"""Each feature beside the kernel: a folder that can be taken away, found by `kiqbridge.feature`, never imported by name.

A feature imports the kernel and the rooms of the faces; another feature only where `NEEDS` in tests/test_layers.py says
so. What a folder's `__init__.py` loads every worker and command line loads: it must never import more than the seams.
"""
