"""Prints the path of runtime.txt: pip install -r "$(python -m transformer_cli.runtime)". Imports no library."""

import sys
from pathlib import Path

RUNTIME = Path(__file__).with_name("runtime.txt")

if __name__ == "__main__":
    sys.stdout.write(f"{RUNTIME}\n")
