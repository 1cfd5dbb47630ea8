"""One setting: its row in the table, and where its value is looked for."""

from collections.abc import Mapping
from typing import Any, Final, Literal, Self

from kiqbridge.config.parsers import Parser, text
from kiqbridge.errors import ConfigError
from kiqbridge.runtime.records import dataclass

Reader = Literal["worker", "client", "function", "web"]
"""Who reads a setting: `kiqbridge worker`, a client wherever it is, the enqueue function, or the web page."""


_OWN_VARIABLE: Final = ("KIQBRIDGE_",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of a table, which is a class: an attribute there, whose name is that of the setting.

    Attributes:
        parse: gets the raw value, and for its message the source and the name; raises ConfigError.
        name: that of the attribute.
        read_by: who reads it: the worker's command line, clients, the enqueue function, the web page; default: as the
            table says it in `READ_BY`.
        env: variables that hold it, the strongest first; default: `KIQBRIDGE_` and its name.
        provider: a variable that names another one, which then holds it instead of `env`.
        option: flags that take it, and what their value is called: `-q --queue NAME`.
        switches: flags without a value, which stand for `switch_value`.
        file_key: its name in the file, if that is another one.
        default_text: the default in words, where it depends on what is loaded.
        feature: that it belongs to; without it the setting is refused.
    """

    help: str
    parse: Parser = text
    default: Any = ""
    name: str = ""
    read_by: tuple[Reader, ...] = ()
    env: tuple[str, ...] = _OWN_VARIABLE
    provider: str | None = None
    option: str = ""
    switches: tuple[str, ...] = ()
    switch_value: str | None = None
    file_key: str | None = None
    default_text: str | None = None
    feature: str = ""

    def __set_name__(self, table: Any, name: str) -> None:
        self.named(name, table.READ_BY)

    def named(self, name: str, read_by: tuple[Reader, ...] = ("worker",)) -> Self:
        """This row with its name, and what follows from that; as it is, if it has a name."""
        if not self.name:
            own = (f"KIQBRIDGE_{name.upper()}",)
            values = {"name": name, "read_by": self.read_by or read_by}
            values["env"] = own if self.env is _OWN_VARIABLE else self.env
            for attribute, value in values.items():
                object.__setattr__(self, attribute, value)
        return self

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of `option`."""
        return tuple(self.option.split()[:-1])

    @property
    def metavar(self) -> str:
        """What `option` calls the value."""
        return self.option.rpartition(" ")[2]

    def parsed(self, value: Any, source: str) -> Any:
        """The value out of a raw one.

        Raises:
            ConfigError: a wrong value; names the setting and the source.
        """
        return self.parse(value, source, self.file_key or self.name)


def rows(table: type) -> tuple[Setting, ...]:
    """All rows of a table, in their order."""
    return tuple(each for each in vars(table).values() if isinstance(each, Setting))


def read(setting: Setting, environ: Mapping[str, str]) -> Any:
    """The value of a setting in the environment, or its default.

    Raises:
        ConfigError: a wrong value; names the variable.
    """
    return setting.parsed(*pick(setting, environ))


def choose(setting: Setting, argument: object, environ: Mapping[str, str]) -> Any:
    """The value of an argument that has the setting's name; None = that of the environment.

    Raises:
        ConfigError: a wrong value; names the argument or the variable.
    """
    if argument is None:
        return read(setting, environ)
    return setting.parsed(argument, f"the argument {setting.name}")


def pick(
    setting: Setting,
    environ: Mapping[str, str],
    file: Mapping[str, Any] | None = None,
    file_name: str = "file",
    flags: Mapping[str, Any] | None = None,
) -> tuple[Any, str]:
    """The raw value of the strongest source that has one, and that source.

    Args:
        setting: the row.
        environ: environment variables; an empty one counts as not set.
        file: settings of the file by their own names.
        file_name: how messages call the file.
        flags: setting name → value, only those that were given.

    Raises:
        ConfigError: the provider holds the value itself, or names a variable that is not set.
    """
    if flags and flags.get(setting.name) is not None:
        return flags[setting.name], setting.flags[0] if setting.flags else "command line"
    if setting.provider and (provider := environ.get(setting.provider)):
        # The value of the variable that the provider names (protocol §1).
        if ":" in provider:
            raise ConfigError(
                f"{setting.provider} must be the name of a variable that holds the address, not the address; "
                f"set {setting.env[0]} to the address instead"
            )
        if not environ.get(provider):
            raise ConfigError(
                f"{setting.provider} names {provider}, which is not set; set it or remove {setting.provider}"
            )
        return environ[provider], provider
    for variable in setting.env:
        if environ.get(variable):
            return environ[variable], variable
    if file and file.get(setting.name) is not None:
        return file[setting.name], file_name
    return setting.default, "default"


def shown_default(setting: Setting) -> str:
    """The default as people write it."""
    if setting.default_text is not None:
        return setting.default_text
    if isinstance(setting.default, list | dict | tuple):
        return ", ".join(setting.default) or "none"
    if isinstance(setting.default, bool):
        return str(setting.default).lower()
    return str(setting.default) or "none"
