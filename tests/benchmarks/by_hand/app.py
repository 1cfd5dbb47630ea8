"""The function that somebody writes in an afternoon instead of ours: jobs of SQS or of an invocation into Redis.

It has no guards, allow-lists, ticks, mappings, other sources, limits of queues or spill queue.
"""

import json
import os
import secrets
import time

import redis
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

logger = Logger()
metrics = Metrics()
client = redis.Redis.from_url(os.environ["REDIS_URL"])


@metrics.log_metrics
def lambda_handler(event, context):
    if "Records" in event:
        requests = [json.loads(record["body"]) for record in event["Records"]]
    else:
        requests = [event]
    now = time.time()
    jobs = []
    with client.pipeline(transaction=False) as pipeline:
        for request in requests:
            queue = request.get("queue", "default")
            job = {
                "class": request["class"],
                "args": request["args"],
                "jid": secrets.token_hex(12),
                "queue": queue,
                "retry": True,
                "created_at": now,
                "enqueued_at": now,
            }
            pipeline.sadd("queues", queue)
            pipeline.lpush(f"queue:{queue}", json.dumps(job, separators=(",", ":")))
            jobs.append({"jid": job["jid"], "class": job["class"], "queue": queue})
        pipeline.execute()
    logger.info("enqueued", jobs=jobs, aws_request_id=context.aws_request_id)
    metrics.add_metric(name="JobsEnqueued", unit=MetricUnit.Count, value=len(jobs))
    return {"batchItemFailures": []} if "Records" in event else {"enqueued": jobs}
