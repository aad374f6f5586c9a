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
    from transformer_cli.config.commented import PATTERN, as_commented_yaml, heading
    from transformer_cli.config.load import SHIPPED, find_config, load_config, read_config_text, shipped_configs

    if list_names:
        shipped = shipped_configs()
        width = max(map(len, shipped))
        for each, path in shipped.items():
            first, *_ = heading(read_config_text(path)).split("\n")
            print(f"{each:{width}}  {first.removeprefix('# ')}")
        return
    chosen = load_config(base, overrides or ())
    path = SHIPPED / PATTERN if base is None else find_config(base)
    text = read_config_text(path) if path.parent == SHIPPED else ""
    if path == SHIPPED / PATTERN:  # its comments are the schema's
        text = heading(text)
    print(as_commented_yaml(chosen, text=text, title=f"The settings of {path}"), end="")
