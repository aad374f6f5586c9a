"""Prints the lowest allowed version of each direct dependency in pyproject.toml, as pip's constraints: `make lowest`.

torch and the tools of tests keep their version in constraints.txt, since other CPU builds of torch may be unavailable.
Indirect dependencies are left to pip.
"""

import re
from importlib import metadata
from pathlib import Path

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
BOUNDED = re.compile(r"([\w-]+)(?:<[\w.]+,)?>=([\w.]+)(?:; extra == \"(?!dev)\w+\")?$")


def lowest() -> list[str]:
    """Returns the lines of a file of constraints."""
    required = metadata.requires("transformer-cli") or []
    bounds = {match[1]: match[2] for match in map(BOUNDED.match, required) if match}
    del bounds["torch"]
    tools = {re.split(r"[^\w-]", each)[0] for each in required} - bounds.keys()
    kept = [line for line in CONSTRAINTS.read_text(encoding="utf-8").split("\n") if line.split("==")[0] in tools]
    return kept + [f"{name}=={version}" for name, version in bounds.items()]


if __name__ == "__main__":
    print("\n".join(lowest()))
