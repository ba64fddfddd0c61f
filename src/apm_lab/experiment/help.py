"""Our own help page: composes nothing and imports nothing heavy."""

from __future__ import annotations

from apm_lab.experiment.config_folder import config_folder

__all__ = ["help_page", "options_page"]

_PAGE = """apm_lab: experiments on LLM style personalization (the APM benchmark) and audits of reward models

  python -m apm_lab                                    the default run, nothing to download
  python -m apm_lab method=routing_oracle              another option of a config group
  python -m apm_lab users.train=4000 pool.size=10      other values
  python -m apm_lab +scale=smoke                       another size (smoke, laptop, paper)
  python -m apm_lab method=routing,routing_oracle -m   several runs, one table
  python -m apm_lab dataset.path=prompts.jsonl         your own prompts
  python -m apm_lab study=perspectives reward_model=smollm2_loglik dataset=opinionqa dataset.path=FOLDER
                                                       whose opinions a reward model rewards

verbs:
  list [GROUP]      the options of every config group; those of one, and what each is
  store VERB ..     what the store holds: list, verify, export FILE, prune model=NAME
  report FOLDER ..  the results table of a finished run; of several, their methods or reward models side
                    by side
  pairs export FILE the training users' preference pairs, for TRL, axolotl and LLaMA-Factory
  leaks OVERRIDE..  prove that the configured method sees nothing hidden

flags (Hydra's):
  -m, --multirun    run every combination of comma-separated values
  --cfg job         print the composed configuration and stop
  --config-dir DIR  a folder with options of your own
  --info            how Hydra composes it
  --hydra-help      Hydra's own help

config groups:
{groups}
Everything that is no verb and no flag is a Hydra override; a fault is one message and exit code 2. README.md has more.
"""


def help_page() -> str:
    """Return the page that `--help` prints."""
    return _PAGE.format(groups=options_page())


def options_page() -> str:
    """Return the options of each config group, a line per group."""
    folders = {folder.name: folder for folder in sorted(config_folder().iterdir()) if folder.is_dir()}
    lines = []
    for name, folder in folders.items():
        options = sorted(str(file.relative_to(folder).with_suffix("")) for file in folder.rglob("*.yaml"))
        if options:
            lines.append(f"  {name:12s} {', '.join(options)}\n")
    return "".join(lines)
