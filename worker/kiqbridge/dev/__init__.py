"""`kiqbridge dev`, what `make up` runs: server, cron rules and worker on one machine.

The command line calls it. It must never be needed in production: nothing else imports it.
"""
