"""Read YAML: no key twice in a mapping, no alias that expands without bound, no objects."""

from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer

from lexigraft.errors import UserError

# Nodes after expansion of all aliases; ten lines of aliases can stand for a billion.
_MOST_NODES = 1_000_000
_MERGE = "tag:yaml.org,2002:merge"


def read_yaml(path: str | Path) -> Any:
    """Read one YAML file; raises like `parse_yaml`, and if the file cannot be read."""
    try:
        return parse_yaml(Path(path).read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not valid YAML ({error})") from None


def parse_yaml(text: str, where: str) -> Any:
    """The value of a YAML text; {} if it is empty.

    Raises a `UserError` that begins with `where` if the text is not valid, and with the line if a
    mapping has a key twice or aliases expand to more than a million values.
    """
    loader = _Loader(text, where)
    try:
        return loader.get_single_data() or {}
    except RecursionError:
        raise UserError(f"{where}: not valid YAML (it is nested too deeply)") from None
    # Values with explicit tags, such as `!!bool maybe`, raise more than YAML's own errors.
    except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{where}: not valid YAML ({reason})") from None
    finally:
        loader.dispose()


class _Loader(Composer, yaml.CSafeLoader):
    """The C parser, which is four times as fast, with Python's composer, which can be extended.

    The C composer also crashes on texts that are nested very deeply.
    """

    def __init__(self, text: str, where: str):
        yaml.CSafeLoader.__init__(self, text)
        Composer.__init__(self)
        self._where = where
        self._sizes: dict[int, int] = {}  # nodes below a node, with aliases expanded

    def compose_node(self, parent: Any, index: Any) -> Any:
        is_alias = self.check_event(yaml.AliasEvent)
        line = self.peek_event().start_mark.line + 1
        node = super().compose_node(parent, index)
        if not is_alias:
            children = node.value if isinstance(node, yaml.CollectionNode) else ()
            pairs = isinstance(node, yaml.MappingNode)
            nodes = (one for pair in children for one in pair) if pairs else children
            self._sizes[id(node)] = 1 + sum(self._sizes[id(one)] for one in nodes)
        if id(node) not in self._sizes:
            raise UserError(f"{self._where}: line {line}: the alias contains itself; remove it")
        if self._sizes[id(node)] > _MOST_NODES:
            raise UserError(
                f"{self._where}: line {line}: aliases expand to more than {_MOST_NODES:,} values; "
                "remove some"
            )
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                # As text: names that are numbers become text, so 1 and "1" are one key.
                name, line = str(self.construct_object(key)), key.start_mark.line + 1
                if name in lines:
                    raise UserError(
                        f"{self._where}: line {line}: the key {name!r} is already given in line "
                        f"{lines[name]}; remove one of them"
                    )
                lines[name] = line
        return node
