"""The command line in a process that kills itself at a chosen step of its work on files.

    python struck.py STEPS [STEP] -- ARGUMENTS...

A step is what Python's audit hooks tell before it happens (a file opened for writing, renamed, removed, ...), below the
current folder, with process ids, times and digests left out. All steps are written to the file STEPS, in order; at the
first one that equals STEP the process dies as by `kill -9`: just before it. The heartbeat is no step: it is a matter of
time.
"""

import os
import re
import runpy
import signal
import sys
from pathlib import Path

WATCHED = ("open", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "shutil.rmtree", "sqlite3.connect")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def step(event, arguments, here):
    """Return the step as text, None for what reads or lies elsewhere."""
    paths = [os.fspath(argument) for argument in arguments if isinstance(argument, str | os.PathLike)]
    if event == "open":
        flags = arguments[2]
        if not isinstance(flags, int) or not flags & WRITING:
            return None
        paths = paths[:1]  # the second text is the mode
    elif event not in WATCHED:
        return None
    inside = [os.path.relpath(path, here) for path in paths if (here / path).is_relative_to(here)]
    if not inside or inside[-1] == ".":
        return None
    text = re.sub(r"[0-9a-f]{32}", "ID", inside[-1])
    text = re.sub(r"\d{4}-\d\d-\d\d/\d\d-\d\d-\d\d-[0-9a-f]{8}", "RUN", text)
    return f"{event} {re.sub(r'[.][0-9]+[.]draft', '.draft', text)}"


def main():
    split = sys.argv.index("--")
    kept, wanted, here = Path(sys.argv[1]).resolve(), sys.argv[2:split], Path.cwd()
    log = kept.open("w")

    def watch(event, arguments):
        name = step(event, arguments, here)
        if name is None:
            return
        log.write(f"{name}\n")
        log.flush()
        if name in wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.argv = ["apm_lab", *sys.argv[split + 1 :]]
    sys.addaudithook(watch)
    runpy.run_module("apm_lab", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
