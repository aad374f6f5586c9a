"""The kinds of the fixtures that many tests take."""

from collections.abc import Callable

from transformer_cli.runs.run import Run

Tfm = Callable[..., tuple[int, str, str]]
"""tfm(*words, …): run a command; returns its exit code, standard output and standard error"""
Refused = Callable[..., str]
"""refused(*words, …): run a command that fails with exit code 1 and one line; returns the line"""
TrainTiny = Callable[..., Run]
"""train_tiny(folder, *overrides): train the tiny config in folder/tiny"""
