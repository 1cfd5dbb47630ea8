"""The command line: `kiqbridge worker`, `health`, `recover`, `pause`, `doctor` and more; the supervisor.

People, systemd and containers call it. Other packages must never import it; `__main__` does.
"""
