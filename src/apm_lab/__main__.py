"""`python -m apm_lab`."""

from apm_lab.experiment.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
