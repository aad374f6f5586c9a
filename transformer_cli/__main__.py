"""`python -m transformer_cli`: the same as `tfm`."""

from transformer_cli.cli import main

main()
