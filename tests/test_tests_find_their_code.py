"""Each module of the package has a test file with its name: `test_claims.py` for `claims.py`, in any tier.

Whoever changes a module finds its tests by the name, and whoever adds one sees here that they are missing.
"""

from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "worker" / "kiqbridge"
MIN_LINES = 60
"""Smaller modules are tested with the one that uses them."""

TESTED_ELSEWHERE = {
    "store/locks": "redis/test_ruled_push.py",
    "sizing/workload": "unit/test_fleet_plan.py",
    "wire/locks": "unit/test_unique.py",
    "client/signatures": "unit/test_typing.py",
    "client/everywhere": "redis/test_shards.py",
    "client/shard_writer": "redis/test_shards.py",
    "flow/flow_place": "redis/test_flow_shards.py",
    "client/former_locks": "redis/test_rerouting.py",
    "transfer/leaving": "redis/test_moving.py",
    **dict.fromkeys(
        (
            "commands/top_command",
            *(
                f"top/{name}"
                for name in (
                    "acts",
                    "app",
                    "details",
                    "dialogs",
                    "looks",
                    "model",
                    "read",
                    "rows",
                    "words",
                )
            ),
        ),
        "operate/test_top.py",
    ),
    **dict.fromkeys(
        (
            "api/filters",
            "api/operator",
            "api/record",
            "api/sets",
        ),
        "redis/test_api_reading.py",
    ),
    "api/merged_page": "redis/test_api_of_shards.py",
    "api/retrying": "redis/test_actions.py",
    "store/audit_log": "redis/test_actions.py",
    "store/operating": "redis/test_actions.py",
    **dict.fromkeys(
        (f"compat/celery/{name}" for name in ("app", "options", "request", "task")),
        "unit/test_celery.py",
    ),
    **dict.fromkeys(
        (
            "commands/contract_command",
            *(f"contract/{name}" for name in ("compare", "export", "stubs")),
        ),
        "unit/test_contract.py",
    ),
    "outbox/effects": "redis/test_outbox.py",
    "wire/flow_mark": "unit/test_end_report.py",
    **dict.fromkeys(
        (
            "doctor/redis_data",
            "doctor/redis_rights",
            "doctor/redis_server",
            "doctor/redis_speed",
            "doctor/redis_state",
            "doctor/system",
        ),
        "redis/test_doctor_redis.py",
    ),
    "api/iterations": "redis/test_in_flight.py",
    "api/metric_reading": "redis/test_class_metrics.py",
    "api/verdict_rules": "unit/test_verdict.py",
    "api/occurrences": "redis/test_schedule_set.py",
    **dict.fromkeys(
        (
            "doctor/template_examination",
            "doctor/template_iam",
            "doctor/template_model",
            "doctor/template_rules",
        ),
        "unit/test_doctor_template.py",
    ),
    **dict.fromkeys(
        ("doctor/sample", "doctor/wire_jobs", "doctor/wire_places"), "redis/test_doctor_wire.py"
    ),
    **dict.fromkeys(
        ("doctor/fleet", "doctor/worker_fleet", "doctor/worker_settings"),
        "redis/test_doctor_worker.py",
    ),
    **dict.fromkeys(("doctor/examination", "doctor/finding"), "redis/test_doctor_command.py"),
    "doctor/shard_moves": "redis/test_doctor_shards.py",
    **dict.fromkeys(
        (
            "telemetry/catalogue",
            "telemetry/fleet",
            "telemetry/otel",
            "telemetry/process",
            "telemetry/prometheus",
            "telemetry/statsd_push",
        ),
        "redis/test_telemetry.py",
    ),
    "testing/loop_thread": "unit/test_fake_jobs.py",
    "testing/memory_commands": "redis/test_memory.py",
    "testing/memory_scripts": "redis/test_memory.py",
    "testing/passing_time": "unit/test_virtual_clock.py",
    "testing/performing": "unit/test_fake_jobs.py",
    "testing/recorded": "unit/test_fake_jobs.py",
    "client/known_schedules": "redis/test_schedules.py",
    "client/schedule_runs": "redis/test_schedules.py",
    "client/occurrences": "redis/test_placing.py",
    "store/schedule_scripts": "redis/test_schedules.py",
    "errors": "redis/test_errors_of_any_kind.py",
    "aws/emf": "lambdas/test_report.py",
    "aws/handler": "lambdas/test_enqueue.py",
    "aws/minutely": "lambdas/test_monitor.py",
    "aws/record": "lambdas/test_sqs.py",
    "aws/push": "lambdas/test_sqs.py",
    "aws/mapping/check": "unit/test_mapping_check.py",
    "aws/spill_form": "lambdas/test_spill.py",
    "aws/spill_queue": "lambdas/test_spill.py",
    "aws/requests": "unit/test_mapper.py",
    "aws/sources/attribute_value": "lambdas/test_dynamodb.py",
    "aws/sources/reading": "lambdas/test_sources.py",
    "aws/sources/service_forms": "lambdas/test_services.py",
    "aws/sources/http_answer": "lambdas/test_http.py",
    "aws/sources/http_problem": "lambdas/test_http.py",
    "children/child": "process/test_process_pool.py",
    "children/job_child": "process/test_process_pool.py",
    "children/suspects": "redis/test_isolation.py",
    "children/trial": "redis/test_isolation.py",
    "client/bulk_push": "redis/test_client.py",
    "client/current": "unit/test_execution.py",
    "client/declaration": "unit/test_job.py",
    **dict.fromkeys(
        (
            "client/flow_ops",
            "flow/batch_status",
            "flow/calls",
            "flow/chains",
            "outbox/batch_effects",
            "wire/flow_steps",
        ),
        "redis/test_batch.py",
    ),
    "client/iteration": "redis/test_iterable.py",
    "client/iteration_state": "redis/test_iterable.py",
    "client/job_pusher": "redis/test_client.py",
    "perform/loop_watch": "redis/test_event_loop.py",
    "client/job_writer": "redis/test_client.py",
    "client/resources": "unit/test_lifecycle.py",
    "client/server": "unit/test_lifecycle.py",
    "clocks/due_ticks": "redis/test_missed.py",
    "clocks/last_entries": "redis/test_schedule_list.py",
    "commands/cli": "process/test_start.py",
    **dict.fromkeys(
        (
            "commands/job_rows",
            "commands/processes_command",
            "commands/queue_command",
            "commands/sets_command",
            "commands/stats_command",
        ),
        "operate/test_reading_commands.py",
    ),
    **dict.fromkeys(
        (
            "commands/acting",
            "commands/audit_command",
            "commands/job_command",
            "commands/metrics_command",
            "commands/set_actions",
            "commands/signals_command",
        ),
        "operate/test_acting_commands.py",
    ),
    **dict.fromkeys(
        (
            "commands/restore_command",
            "transfer/file",
            "transfer/form",
            "transfer/reading",
            "transfer/taking",
            "transfer/writing",
        ),
        "operate/test_export_command.py",
    ),
    "commands/deploy_command": "redis/test_deploy.py",
    "commands/spill_command": "lambdas/test_replay.py",
    "commands/sqs_messages": "lambdas/test_replay.py",
    "commands/worker_command": "process/test_worker.py",
    "client/remote": "unit/test_contract.py",
    "config/client_settings": "unit/test_table.py",
    "config/config": "unit/test_merge.py",
    "config/function_settings": "unit/test_table.py",
    "config/setting": "unit/test_table.py",
    "config/worker_parsers": "unit/test_parsers.py",
    **dict.fromkeys(
        (
            "contrib/after_commit",
            "client/postponed",
        ),
        "redis/test_sqlalchemy.py",
    ),
    "contrib/django/settings": "redis/test_django.py",
    "contrib/django/management/commands/kiqbridge": "redis/test_django.py",
    "credentials/aws_request": "redis/test_redis_source.py",
    "dev/child_process": "process/test_dev.py",
    "dev/command": "process/test_dev.py",
    "dev/embedded_server": "process/test_dev.py",
    "dev/lambda_runtime": "process/test_dev.py",
    "dev/local_data": "process/test_dev.py",
    "dev/local_function": "process/test_dev.py",
    "dev/overview": "process/test_dev_tables.py",
    "dev/session": "process/test_dev.py",
    "dev/tick_delivery": "process/test_dev.py",
    "dev/web_child": "process/test_dev_web.py",
    "dev/worker_child": "process/test_dev.py",
    "engine/emergency": "process/test_process_state.py",
    "engine/health": "process/test_liveness.py",
    "engine/launcher": "process/test_worker.py",
    "engine/parts": "process/test_worker.py",
    "engine/pause_watch": "redis/test_pauses.py",
    "host/status": "unit/test_health_command.py",
    "inflight/incarnations": "redis/test_reaping.py",
    "logs/log_sink": "unit/test_log_reader.py",
    "monitor/demand": "lambdas/test_monitor.py",
    "monitor/fleet": "lambdas/test_monitor.py",
    "monitor/minute": "lambdas/test_monitor.py",
    "perform/basic_fetch": "redis/test_capsule_runtime.py",
    "perform/fetch": "redis/test_processor.py",
    "perform/job_lines": "unit/test_job_logger.py",
    "perform/look_at_queues": "redis/test_wakeup.py",
    "schedule/check": "unit/test_template.py",
    "schedule/cloudformation": "unit/test_template.py",
    "schedule/cron_fields": "unit/test_cron.py",
    "schedule/imports/events": "unit/test_schedule_import.py",
    "schedule/imports/kinds": "unit/test_schedule_import.py",
    "schedule/imports/record": "unit/test_schedule_import.py",
    "schedule/lint/clock_changes": "unit/test_rules.py",
    "schedule/lint/crowds": "unit/test_rules.py",
    "schedule/lint/finding": "unit/test_rules.py",
    "schedule/lint/repeats": "unit/test_rules.py",
    "schedule/lint/zones": "unit/test_rules.py",
    "schedule/imports/yaml_schedules": "unit/test_sidekiq_cron_file.py",
    "schedule/rule_input": "unit/test_template.py",
    "schedule/sourced": "redis/test_schedule_sources.py",
    "schedule/yaml_nodes": "unit/test_template.py",
    "store/server_check": "redis/test_connection_faults.py",
    "wire/active_job_values": "unit/test_active_job.py",
    "wire/bulk": "redis/test_guarded_push.py",
    "wire/guards": "redis/test_guarded_push.py",
    "wire/options": "unit/test_job.py",
    "api/class_histograms": "web/test_metrics.py",
    "web/app": "web/test_context.py",
    "web/pages/schedule_actions": "web/test_schedules.py",
    "web/pages/grouping": "web/test_job_sets.py",
    "web/pages/listing": "web/test_job_sets.py",
    "web/pages/selection": "web/test_queue.py",
    "web/timeline": "web/test_job.py",
    "web/auth": "web/test_gate.py",
    "web/function": "lambdas/test_web_function.py",
    "web/server": "web/test_web_command.py",
    "web/plain_page": "web/test_sign_in.py",
    "config/web_settings": "unit/test_table.py",
    **dict.fromkeys(
        (
            "web/plots/axis",
            "web/plots/histogram",
            "web/plots/markup",
            "web/plots/small",
            "web/plots/tick_strip",
            "web/plots/time_series",
        ),
        "unit/test_plots.py",
    ),
}
"""Modules that are tested as a part of something larger, and the file that does it."""


def test_each_module_has_a_test_file_with_its_name():
    assert untested(PACKAGE, TESTS, set(TESTED_ELSEWHERE)) == []


def test_each_exception_is_needed_and_names_a_test_file():
    without = "\n".join(untested(PACKAGE, TESTS, set()))

    assert [file for file in TESTED_ELSEWHERE.values() if not (TESTS / file).is_file()] == []
    assert [name for name in TESTED_ELSEWHERE if f"{name}.py: write " not in without] == []


def test_a_module_without_a_test_file_is_found(tmp_path):
    package, tests = tmp_path / "package", tmp_path / "tests"
    (package / "store").mkdir(parents=True)
    (tests / "unit").mkdir(parents=True)
    for name in ("tested", "missing", "known"):
        (package / "store" / f"{name}.py").write_text("x = 1\n" * MIN_LINES)
    (package / "store" / "small.py").write_text("x = 1\n")
    (package / "store" / "__init__.py").write_text("x = 1\n" * MIN_LINES)
    (tests / "unit" / "test_tested.py").touch()

    [found] = untested(package, tests, {"store/known"})

    assert found.startswith("store/missing.py: write test_missing.py")


def untested(package: Path, tests: Path, exceptions: set[str]) -> list[str]:
    """One line for each module above the minimum that has neither a test file nor an exception."""
    names = {path.stem.removeprefix("test_") for path in tests.rglob("test_*.py")}
    return [
        f"{module}.py: write test_{module.rpartition('/')[2]}.py, or name the file that tests it in "
        "TESTED_ELSEWHERE of tests/test_tests_find_their_code.py"
        for path in sorted(package.rglob("*.py"))
        if path.stem not in names | {"__init__", "__main__"}
        and (module := path.relative_to(package).with_suffix("").as_posix()) not in exceptions
        and len(path.read_text(encoding="utf-8").splitlines()) >= MIN_LINES
    ]
