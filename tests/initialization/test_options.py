from dataclasses import fields

import pytest

from lexigraft.errors import UserError
from lexigraft.initialization.options import boolean, choice, integer, number, positive, text
from lexigraft.initialization.registry import initializer, methods

NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("option", "allowed", "refused"),
    [
        (integer(3), [1, 500], [0, -1, 2.5, True, "all", None]),
        (integer(None, minimum=0), [0, None], [-1, False]),
        (number(1.0), [0, 0.5, 10**6], [-0.1, NAN, INFINITY, True, "0.5", None]),
        (number(0.5, maximum=1), [0, 1], [1.5]),
        (positive(0.1), [1e-9, 2], [0, -1, NAN, INFINITY, True, "a", None]),
        (positive(None), [None], [0]),
        (boolean(False), [True, False], [1, "yes", None]),
        (choice("a", "b"), ["a", "b"], ["c", "", None, ["a"]]),
        (text(), ["x"], ["", 1234567, None]),
        (text(None), ["x", None], ["", 3]),
    ],
)
def test_an_option_has_the_values_that_are_declared(option, allowed, refused):
    check = option.metadata["allowed"]
    assert [value for value in allowed if not check(value)] == []
    assert [value for value in refused if check(value)] == []


# What is never an option's value, and what else a method cannot do without.
NEVER, REQUIRED = object(), {"zett": {"hypernetwork": "a/folder"}}


@pytest.mark.parametrize("name", methods())
def test_every_option_of_every_method_is_checked(name):
    required = REQUIRED.get(name, {})
    for option in fields(initializer(name, **required)):
        with pytest.raises(UserError, match=f"option '{option.name}' of initializer '{name}': .*"):
            initializer(name, **required | {option.name: NEVER})
