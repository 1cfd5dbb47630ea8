"""The settings: one table, the parsers of its values, and the settings file.

The commands merge all sources with it; the client and the engine read the result. It must never open
a connection or import users' code.
"""
