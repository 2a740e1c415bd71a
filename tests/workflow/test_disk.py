"""A results folder that cannot be written is refused before the first job."""

import pytest

from lexigraft import UserError
from workflow.status.results_folder import check_writable


def test_a_folder_that_can_be_written_is_left_as_it_was(tmp_path):
    check_writable(str(tmp_path / "deep" / "results"))
    assert list((tmp_path / "deep" / "results").iterdir()) == []


@pytest.mark.fault(
    "disk",
    "a results folder of another user, or on a read-only disk",
    "a one-line error message names the folder before anything is computed",
)
@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_place_that_is_no_folder_is_refused_by_its_name(tmp_path, place):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=f"{place}: results cannot be written there"):
        check_writable(str(tmp_path / place))
