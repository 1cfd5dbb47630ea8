"""`kiqbridge dev`, what `make up` runs: server, cron rules and worker on one machine."""
