"""`tfm doctor`: this machine → what a bug report needs to know of it."""

from transformer_cli.commands.options import JsonOption
from transformer_cli.errors import DeviceError


def doctor(as_json: JsonOption = False) -> None:
    """Say what a bug report needs. It says what is installed, where things lie and how fast this machine computes."""
    from transformer_cli.commands.diagnosis import computing, places, software
    from transformer_cli.output.doctor import computing_as_text, diagnosis_as_json, places_as_text, software_as_text

    installed, lie = software(), places()
    if as_json:
        computes = computing()
        print(diagnosis_as_json(installed, lie, computes))
    else:
        print(f"{software_as_text(installed)}\n\n{places_as_text(lie)}\n", flush=True)  # torch takes seconds to come
        computes = computing()
        print(computing_as_text(computes))
    if computes.problem is not None:
        raise DeviceError(f"torch cannot be imported: {computes.problem}; install it again")
