"""Adapters: what the core is used with. Each imports the core, which imports none of them (docs/design.md)."""
