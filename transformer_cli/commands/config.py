"""`tfm config`: the settings of the built-in config, of a shipped one or of a file → YAML with comments."""

import typer


def config(
    base: str | None = None,
    overrides: list[str] | None = None,
    list_names: bool = False,
) -> None:
    """Print every setting with its value and a comment. The output is YAML that --config takes."""
    if list_names and (base is not None or overrides):
        raise typer.BadParameter("--list prints names; it cannot be used with a config or --set")
    from transformer_cli.config import load

    if list_names:
        shipped = load.shipped_configs()
        width = max(map(len, shipped))
        for each, path in shipped.items():
            first, *_ = load.heading(load.read_config_text(path)).split("\n")
            print(f"{each:{width}}  {first.removeprefix('# ')}")
        return
    chosen = load.load_config(base, overrides or ())
    path = load.SHIPPED / load.PATTERN if base is None else load.find_config(base)
    text = load.read_config_text(path) if path.parent == load.SHIPPED else ""
    if path == load.SHIPPED / load.PATTERN:  # its comments are the schema's
        text = load.heading(text)
    print(load.as_commented_yaml(chosen, text=text, title=f"The settings of {path}"), end="")
