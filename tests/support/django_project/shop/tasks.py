"""Django's own tasks, where it has them."""

import django

if django.VERSION >= (6, 0):
    from django.tasks import task

    @task
    def add(a: int, b: int = 0) -> int:
        return a + b

    @task(takes_context=True, queue_name="mailers")
    def describe(context, name: str) -> str:
        return f"{name} {context.task_result.id} {context.attempt}"

    @task
    async def add_in_background(a: int, b: int) -> int:
        return a + b

    @task
    def fail() -> None:
        raise LookupError("nothing there")
