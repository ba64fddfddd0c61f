"""The command line: verbs of our own, and Hydra for everything else."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from apm_lab import __version__
from apm_lab.errors import ApmLabError, ConfigError, did_you_mean
from apm_lab.experiment.arguments import forced
from apm_lab.experiment.config_folder import config_folder
from apm_lab.experiment.help import help_page, options_page
from apm_lab.experiment.job import Job
from apm_lab.experiment.option_files import unreadable
from apm_lab.experiment.option_lines import in_colour, option_lines
from apm_lab.experiment.output import patient_output

__all__ = ["main"]

_ALONE = "hydra.mode=RUN"  # of a verb about one run, also where a preset is a grid
_raised: list[Exception] = []  # what the single job of this process raised


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0, or 2 after one message about a mistake of the user's."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # Torch's threads wait for one another by spinning, unless its OpenMP is told otherwise before it is loaded: on a
    # busy machine that is ten times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with patient_output() as output:
        try:
            code = _answer(arguments)
        except ApmLabError as fault:
            if _debugging(arguments):
                raise
            print(f"error: {fault}", file=sys.stderr)
            code = 2
        except KeyboardInterrupt:
            print("interrupted; the same command continues", file=sys.stderr)
            code = 130
    return 2 if output.lost is not None and output.lost.errno != errno.EPIPE and not code else code


def _answer(arguments: list[str]) -> int:
    if "--help" in arguments or "-h" in arguments:
        print(help_page(), end="")
        return 0
    if "--version" in arguments:
        print(f"apm_lab {__version__}")
        return 0
    if arguments and not arguments[0].startswith(("-", "~")) and "=" not in arguments[0]:
        return _verb(arguments[0], arguments[1:])
    return _experiment(arguments)


def _stop(_signal: int, _frame: object) -> None:
    """End the process on SIGTERM, also in the middle of a fit, where Lightning alone would only make a note of it."""
    raise KeyboardInterrupt


def _debugging(arguments: Sequence[str]) -> bool:
    return any(re.fullmatch(r"\+*debug=true", argument, re.IGNORECASE) for argument in arguments)


def _verb(name: str, rest: Sequence[str]) -> int:
    verbs: dict[str, Callable[[Sequence[str]], None]] = {"list": _list, "store": _store, "report": _report}
    if name == "leaks":
        if {"-m", "--multirun"} & set(rest):
            raise ConfigError("leaks proves one method at a time; leave out -m")
        return _experiment([*rest, _ALONE], _leak_job)
    if name == "pairs":
        return _pairs(rest)
    if name not in verbs:
        known = (*verbs, "leaks", "pairs")
        raise ConfigError(f"'{name}' is neither a verb nor an override (key=value){did_you_mean(name, known)}")
    if len(rest) > 1 and name not in ("store", "report"):
        raise ConfigError(f"{name} takes one argument, found {len(rest)}: {' '.join(rest)}")
    verbs[name](rest)
    return 0


def _pairs(rest: Sequence[str]) -> int:
    from apm_lab.experiment.pairs import read_request

    request, overrides = read_request(rest)

    def task(config: Any) -> None:  # noqa: ANN401 (OmegaConf's own type)
        from apm_lab.experiment.pairs import export_pairs
        from apm_lab.report.table import terminal

        _alone(config, lambda job: export_pairs(job, request, terminal()))

    return _experiment([*overrides, _ALONE], task)


def _list(rest: Sequence[str]) -> None:
    try:
        print(option_lines(rest[0], coloured=in_colour()) if rest else options_page(), end="")
    except KeyError:
        groups = [folder.name for folder in config_folder().iterdir() if folder.is_dir()]
        raise ConfigError(f"no config group '{rest[0]}'{did_you_mean(rest[0], groups)}") from None


def _store(rest: Sequence[str]) -> None:
    from apm_lab.experiment.store_verbs import store_verb

    store_verb(rest)


def _report(rest: Sequence[str]) -> None:
    from apm_lab.experiment.comparable import print_together
    from apm_lab.experiment.finished import print_finished
    from apm_lab.report.table import terminal

    if not rest:
        raise ConfigError("report needs a run's folder: python -m apm_lab report outputs/personalization/DATE/TIME-ID")
    if len(rest) == 1:
        print_finished(terminal(), Path(rest[0]))
    else:
        print_together(terminal(), [Path(word) for word in rest])


def _experiment(arguments: list[str], task: Callable[[Any], float | None] | None = None) -> int:
    """Hand over to Hydra, whose errors become one message."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises instead of printing and leaving with exit code 1
    import hydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from apm_lab.experiment import plan, sweep
    from apm_lab.experiment.hydra_callbacks import checked_callbacks

    before = sys.argv
    in_main = threading.current_thread() is threading.main_thread()  # the only one that may take signals
    earlier = signal.signal(signal.SIGTERM, _stop) if in_main else None
    sys.argv = ["apm_lab", *forced(arguments)]
    sweep.begin()
    plan.begin()
    try:
        with checked_callbacks():
            hydra.main(version_base="1.3", config_path=str(config_folder()), config_name="config")(task or _job)()
    except (HydraException, OmegaConfBaseException) as fault:
        if _debugging(arguments) or isinstance(fault.__cause__, ApmLabError):
            raise (fault.__cause__ if isinstance(fault.__cause__, ApmLabError) else fault) from None
        raise ConfigError(_readable(fault)) from None
    except SystemExit as leaving:  # Hydra has said why
        return 2 if leaving.code else 0
    except ApmLabError:
        raise
    except Exception as fault:  # what Hydra itself lets through: files and values that it can't read
        if _debugging(arguments):
            raise
        story = f"the configuration can't be composed: {_readable(fault)}"
        if isinstance(fault, OSError):
            story = f"{fault.filename or 'a file'} can't be used: {fault.strerror or fault}"
        raise ConfigError(unreadable(sys.argv, fault) or story) from fault
    finally:
        sys.argv = before
        if earlier is not None:
            signal.signal(signal.SIGTERM, earlier)
        if plan.conclude():
            sweep.planned()
        sweep.conclude()
    if _raised:
        raise _raised.pop()
    return sweep.exit_code()


def _readable(fault: Exception) -> str:
    """Return Hydra's message in one line, with the nearest option where one was not found."""
    text = str(fault).strip()
    override = getattr(fault, "override", None)
    if isinstance(override, str):  # of Hydra's grammar
        reason = text.partition("\nSee https")[0].removeprefix(f"Error parsing override '{override}'")
        reason = "unexpected character" if reason.startswith("LexerNoViable") else " ".join(reason.split())
        reason = reason.partition(" expecting {")[0]  # a list of the grammar's own names
        shown = override.lstrip("+")
        return f"'{shown}' can't be read: {reason}; a value with special characters goes into quotes: 'key=\"value\"'"
    missing = re.search(r"Could not find '([^']+)'", text)
    if missing:
        group, _, option = missing[1].rpartition("/")
        found = re.search(r"Available options in '[^']*':(.*?)(?:\n\w|\nConfig search path|$)", text, re.DOTALL)
        options = re.findall(r"[\w.-]+", found[1]) if found else []
        return f"{group}={option}: no such option{did_you_mean(option, options)}"
    return " ".join(text.split()) or type(fault).__name__


def _job(config: Any) -> float | None:  # noqa: ANN401 (OmegaConf's own type)
    """Run one job of Hydra's and return its first headline figure: Delta, or what another study is summed up in."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from apm_lab.experiment import sweep
    from apm_lab.experiment.outer_faults import outer_faults_named
    from apm_lab.experiment.run import Outcome, execute
    from apm_lab.report.table import terminal

    context, console = HydraConfig.get(), terminal()
    if config.get("plan") is True:
        _plan_job(config, context)
        return None

    def run() -> Outcome:
        with outer_faults_named():
            return execute(_composed(config, context), console)

    if context.mode == RunMode.MULTIRUN:
        return sweep.run_one(context, _overrides(context, config), run, console)
    try:
        return next(iter(run().figures.values()), None)
    except Exception as fault:  # kept for `main`: Hydra would print lines of its own about it
        _raised.append(fault)
        return None


def _plan_job(config: Any, context: Any) -> None:  # noqa: ANN401 (Hydra's own types)
    """Add one job to the plan of the command; one that has a mistake is named at the end and takes no other with it."""
    from apm_lab.experiment.outer_faults import outer_faults_named
    from apm_lab.experiment.plan import plan_job

    try:
        with outer_faults_named():
            plan_job(_composed(config, context))
    except Exception as fault:
        _raised.append(fault)


def _leak_job(config: Any) -> None:  # noqa: ANN401 (OmegaConf's own type)
    """Prove that the configured method sees nothing hidden."""
    from apm_lab.experiment.leaks import prove_clean
    from apm_lab.report.table import terminal

    _alone(config, lambda job: prove_clean(job, terminal()))


def _alone(config: Any, task: Callable[[Job], None]) -> None:  # noqa: ANN401 (OmegaConf's own type)
    """Do a verb's task with the composed job; what it raises is kept for `main`."""
    from hydra.core.hydra_config import HydraConfig

    from apm_lab.experiment.outer_faults import outer_faults_named

    try:
        with outer_faults_named():
            task(_composed(config, HydraConfig.get()))
    except Exception as fault:
        _raised.append(fault)


def _composed(config: Any, context: Any) -> Job:  # noqa: ANN401 (Hydra's own types)
    """Return the job of a composed config, with Hydra's own files as they are kept beside the results."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    described = {"config": config, "hydra": context, "overrides": context.overrides.task}
    files = {f"{name}.yaml": _masked(OmegaConf.to_yaml(part), config) for name, part in described.items()}
    folders = [Path(source.path) for source in context.runtime.config_sources if source.schema == "file"]
    try:
        plain: Any = OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as fault:
        raise ConfigError(_readable(fault)) from None
    return Job(plain, _overrides(context, config), dict(context.runtime.choices), folders, files)


def _masked(text: str, config: Any) -> str:  # noqa: ANN401 (OmegaConf's own type)
    """Return a text without the secrets that stand in the configuration."""
    from omegaconf import OmegaConf

    from apm_lab.training.credentials import secret_values

    plain: Any = OmegaConf.to_container(config, resolve=False)
    for secret in secret_values(plain):
        text = text.replace(secret, "***")
    return text


def _overrides(context: Any, config: Any) -> list[str]:  # noqa: ANN401 (Hydra's own types)
    """Return the overrides as they were typed, without secrets and the `++` that `forced` puts before them.

    They are unresolved: an interpolation in one is for the run's configuration to resolve.
    """
    from omegaconf import OmegaConf

    overrides: Any = OmegaConf.to_container(context.overrides.task, resolve=False)
    return [_masked(str(override).removeprefix("++"), config) for override in overrides]
