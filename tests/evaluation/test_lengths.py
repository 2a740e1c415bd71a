import pytest

from lexigraft.evaluation.texts import group_rows


@pytest.mark.parametrize(
    ("rows", "most", "groups"),
    [
        ([1, 2, 3], 5, [[1], [2], [3]]),
        ([1, 2, 3], 3, [[1], [2], [3]]),
        ([1, 2, 3, 4, 5], 2, [[1, 3, 5], [2, 4]]),
        ([], 2, []),
    ],
)
def test_rows_are_alone_until_there_are_too_many(rows, most, groups):
    assert group_rows(rows, most) == groups


def test_every_row_is_in_one_group_and_groups_are_of_one_size():
    groups = group_rows(range(4321))
    assert sorted(row for group in groups for row in group) == list(range(4321))
    assert {len(group) for group in groups} == {4, 5} and len(groups) == 1000
