"""Where Celery has its logger."""
