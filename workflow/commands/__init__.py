"""Commands over studies; `lexigraft.commands.app` lists them."""
