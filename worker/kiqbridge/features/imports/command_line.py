"""From a command that a crontab runs to a job: a call in Rails becomes that job, any other a `ShellCommand`.

    cd /app && bin/rails runner -e production 'Foo::BarJob.perform_async(1, "x")' >> log/cron.log 2>&1

is the job `Foo::BarJob` with the arguments `[1, "x"]`. What stands around the call (the folder, a login
shell, nice, flock, where the output goes) is left out, with a note where it mattered.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kiqbridge.features.imports.record import Reading, Unsayable
from kiqbridge.runtime.shell_words import ShellSyntax, Word, shell_words

SHELL_COMMAND: Final = "ShellCommand"
"""Class of the job that runs a command (features/shell_command/shell_job.py)."""

_SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash"})
_REDIRECTION: Final = re.compile(
    r"(?:\s*(?:(?:[12]|&)?>>?\s*&?[^\s|;&<>()'\"]+|2>&1|</dev/null))+\s*$"
)
_CALL: Final = re.compile(
    r"\s*(?:::)?(?P<name>[A-Z]\w*(?:::[A-Z]\w*)*)(?:\.set\((?P<set>[^()]*)\))?"
    r"\.(?P<verb>\w+[?!]?)(?:\s*\((?P<args>.*)\)|\s+(?P<bare>[^\s(;].*?))?\s*;?\s*",
    re.DOTALL,
)
_RUNNER: Final = re.compile(r"(?:bundle exec )?(?:ruby )?(?:\S*/)?rails (?:runner|r) ")
_QUEUE: Final = re.compile(r"""\s*queue:\s*[:"']?(\w+)["']?\s*""")
_OTHER_VERBS: Final = frozenset({"perform_in", "perform_at", "perform_bulk"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognized:
    """The job of a command, a name for its schedule, and what is different here."""

    job: dict[str, Any]
    name: str
    notes: Sequence[str] = ()


def job_of_command(command: str, reading: Reading) -> Recognized:
    """The job that a command becomes.

    Raises:
        Unsayable: it cannot be run at all, such as an empty one.
    """
    command = command.strip()
    if not command:
        raise Unsayable("there is no command after the five fields")
    notes: list[str] = []
    bare, output = _without_output(command)
    if output:
        notes.append(f"its output went to {output}; here it is in the worker's log")
    reason = ""
    try:
        code = _rails_code(bare, notes)
        if code is not None:
            return Recognized(**_job_of_code(code, reading), notes=notes)
    except (Unsayable, ShellSyntax) as error:
        reason = f"not recognized as a job: {error}"
    return Recognized(
        # As with cron, it does not run again by itself: not every command may.
        job={"class": SHELL_COMMAND, "args": [bare], "queue": reading.shell_queue, "retry": 0},
        name=_name_of_command(bare),
        notes=[*notes, reason] if reason else notes,
    )


def class_name_to_identifier(name: str) -> str:
    """`Foo::BarJob` → `FooBarJob`; other characters end a word."""
    words = re.findall(r"[A-Za-z0-9]+", name)
    text = "".join(word[0].upper() + word[1:] for word in words)
    return text if text[:1].isalpha() else f"Schedule{text}"


def _job_of_code(code: str, reading: Reading) -> dict[str, Any]:
    match = _CALL.fullmatch(code)
    if match is None:
        raise Unsayable(f"{code[:60]!r} is no single call such as Foo::BarJob.perform_async(1)")
    verb, name = match["verb"], match["name"]
    if verb in _OTHER_VERBS:
        raise Unsayable(f"{verb} enqueues for later; let the schedule itself be later")
    if verb not in ("perform_async", "perform_later"):
        raise Unsayable(
            f"{name}.{verb} runs within the command and enqueues nothing; make it a job with perform_async"
        )
    queue = reading.queue
    if match["set"] is not None:
        option = _QUEUE.fullmatch(match["set"])
        if option is None:
            raise Unsayable(f"set({match['set']}) has more than a queue")
        queue = option[1]
    args = _json_arguments((match["args"] or match["bare"] or "").strip())
    kind = "active_job" if verb == "perform_later" else "class"
    job = {kind: name, "args": args, "queue": queue}
    return {"job": job, "name": class_name_to_identifier(name)}


def _json_arguments(text: str) -> list[Any]:
    """Arguments that Ruby and JSON write alike: numbers, texts in double quotes, true, false, arrays of them."""
    try:
        args = json.loads(f"[{text}]")
    except ValueError:
        args = None
    # Ruby fills in #{…}, #@… and #$…, and the keys of {"a": 1} are symbols.
    if not isinstance(args, list) or re.search(r"#[{@$]|\{", text):
        raise Unsayable(
            f"the arguments {text[:60]!r} are no JSON literals; only Ruby knows their values"
        )
    return args


def _without_output(command: str) -> tuple[str, str]:
    """The command without redirections at its end, and the file that its output went to ("" = none)."""
    match = _REDIRECTION.search(command)
    if match is None or not match[0].strip():
        return command, ""
    try:
        words = shell_words(command)
    except ShellSyntax:
        return command, ""
    begin = match.start() + len(match[0]) - len(match[0].lstrip())
    first = next((word for word in words if word.start >= begin), None)
    # Within quotes it is a part of a word, and no redirection.
    starts = {word.start for word in words}
    if first is None or begin not in starts:
        return command, ""
    files = [name for name in re.findall(r">>?\s*(?!&)(\S+)", match[0]) if not name.startswith("&")]
    return command[: match.start()].strip(), ", ".join(files) or "elsewhere"


def _rails_code(command: str, notes: list[str]) -> str | None:
    """The Ruby code that `rails runner` gets; None for any other command.

    Raises:
        Unsayable: it is one whose code is not on the line.
    """
    words = _last_simple_command(shell_words(command))
    if words is None:
        return None
    words = _without_wrappers(words, notes)
    texts = [word.text for word in words]
    if len(texts) > 2 and _base(texts[0]) in _SHELLS:  # noqa: PLR2004 - sh -c code
        return _code_of_shell(texts, notes)
    runner = _RUNNER.match(" ".join([*texts, ""]))
    if runner is None:
        return None
    rest = _without_environment(words[runner[0].count(" ") :])
    if len(rest) != 1:
        raise Unsayable("rails runner has no single piece of code")
    if not rest[0].is_plain:
        raise Unsayable("the code has an expansion of the shell in it")
    return rest[0].text


def _code_of_shell(texts: list[str], notes: list[str]) -> str | None:
    """The Ruby code of a `rails runner` inside `bash -l -c '…'`."""
    if not all(re.fullmatch(r"-[a-z]+", text) for text in texts[1:-1]):
        return None
    if not texts[-2].endswith("c"):
        return None
    inner, output = _without_output(texts[-1])
    found = _rails_code(inner, notes)
    if found is not None and output:
        notes.append(f"its output went to {output}; here it is in the worker's log")
    return found


def _last_simple_command(words: list[Word]) -> list[Word] | None:
    """The words after `cd FOLDER &&`; None if the shell has more to do than that."""
    if len(words) > 3 and words[0].text == "cd" and words[2].text in ("&&", ";"):  # noqa: PLR2004
        words = words[3:]
    if any(word.is_operator for word in words):
        return None
    return words


def _without_wrappers(words: list[Word], notes: list[str]) -> list[Word]:
    """Without what stands in front of the program: variables, env, nice, flock, timeout, chronic."""
    while words:
        text = words[0].text
        if re.match(r"[A-Za-z_]\w*=", text):
            if text.startswith("TZ="):
                notes.append(f"{text} set the zone of the command, not of the schedule")
            words = words[1:]
        elif _base(text) in ("env", "chronic", "exec", "nohup", "time"):
            words = words[1:]
        elif _base(text) in ("nice", "ionice", "timeout", "flock"):
            words = _after_options(words, _base(text))
            if _base(text) == "flock":
                notes.append("flock kept two from running at once: set overlap: skip for it")
            elif _base(text) == "timeout":
                notes.append("timeout ended it: set timeout_s of the job")
        else:
            break
    return words


def _after_options(words: list[Word], program: str) -> list[Word]:
    """What follows the options and the own operand of nice, ionice, timeout or flock."""
    takes_value = {"nice": "-n", "ionice": "-c -n", "timeout": "-k -s", "flock": "-w -E"}[program]
    place = 1
    while place < len(words) and words[place].text.startswith("-"):
        place += 2 if words[place].text in takes_value.split() else 1
    return words[place + (program in ("timeout", "flock")) :]


def _without_environment(words: list[Word]) -> list[Word]:
    for place, word in enumerate(words):
        if word.text in ("-e", "--environment"):
            return words[:place] + words[place + 2 :]
    return [word for word in words if not word.text.startswith("--environment=")]


def _name_of_command(command: str) -> str:
    """A name for a schedule, out of the program that runs."""
    try:
        words = _last_simple_command(shell_words(command)) or shell_words(command)
        texts = [word.text for word in _without_wrappers(words, []) if not word.is_operator]
    except ShellSyntax:
        texts = command.split()
    if texts[:2] == ["bundle", "exec"]:
        texts = texts[2:]
    for programs in ({*_SHELLS, "python", "python3", "ruby", "perl", "php"}, {"rake", "rails"}):
        if texts and _base(texts[0]) in programs:
            texts = [text for text in texts[1:] if not text.startswith("-")] or texts
    if len(texts) > 1 and texts[0] in ("runner", "r"):
        return class_name_to_identifier(re.split(r"[\s(]|\.perform", texts[-1])[0][:40])
    first = re.sub(r"\.\w+$", "", _base(texts[0]))[:40] if texts else "Command"
    return class_name_to_identifier(first)


def _base(path: str) -> str:
    return path.rpartition("/")[2]
