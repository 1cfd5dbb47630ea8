"""The functions of the template on this machine: those of the rules at once, others when somebody invokes them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kiqbridge.dev.local_function import LocalFunction
from kiqbridge.errors import ConfigError
from kiqbridge.schedule.template import TemplateFunction, TemplateSchedule, read_functions

_HANDLER = "app.lambda_handler"


@dataclass(slots=True, kw_only=True)
class LocalFunctions:
    """Makes and ends them; from the main thread.

    Attributes:
        template: names them; its folder is above theirs.
        log: file of a function's own log; None = our standard error.
        made: logical id → function.
    """

    template: Path | None
    log: Callable[[str], Path | None]
    made: dict[str, LocalFunction] = field(default_factory=dict)
    _environ: Mapping[str, str] = field(init=False, default_factory=dict)
    _own: Mapping[str, str] = field(init=False, default_factory=dict)

    def take(
        self, rules: Sequence[TemplateSchedule], environ: Mapping[str, str], own: Mapping[str, str]
    ) -> None:
        """End all that there are, and make those of the rules; `start` starts them.

        Args:
            rules: of the template as it is now.
            environ: what all children get.
            own: what goes before the variables of the template.
        """
        self.stop()
        self._environ, self._own = environ, own
        for rule in rules:
            if rule.function.name not in self.made:
                self._make(rule.function)

    def find(self, name: str) -> LocalFunction | None:
        """The function with this logical id; None = the template has none, or it is not in Python."""
        if name not in self.made and self.template is not None:
            try:
                functions = read_functions(self.template)
            except ConfigError:  # it was edited, and is not followed
                return None
            for function in functions:
                if function.name == name and self._is_python(function):
                    self._make(function)
        return self.made.get(name)

    def start(self) -> None:
        """Start loading those that were made."""
        for function in self.made.values():
            function.start()

    def stop(self) -> None:
        """End all."""
        for function in self.made.values():
            function.stop()
        self.made.clear()

    def _is_python(self, function: TemplateFunction) -> bool:
        module = (function.handler or _HANDLER).rpartition(".")[0]
        return (
            function.code_uri is not None
            and (self._folder(function) / f"{module.replace('.', '/')}.py").is_file()
        )

    def _folder(self, function: TemplateFunction) -> Path:
        above = self.template.parent if self.template else Path()
        return above / (function.code_uri or "")

    def _make(self, function: TemplateFunction) -> None:
        self.made[function.name] = LocalFunction(
            folder=self._folder(function),
            handler=function.handler or _HANDLER,
            environ={
                "AWS_LAMBDA_FUNCTION_NAME": function.name,
                **self._environ,
                **function.environment,
                **self._own,
            },
            log=self.log(function.name),
        )
