"""`lexigraft doctor`: only what nothing runs without makes it fail."""

import pytest
import typer

from lexigraft.commands import doctor
from lexigraft.commands.doctor import ABSENT, IMPOSSIBLE, OK, Diagnosis


@pytest.mark.parametrize(("state", "fails"), [(OK, False), (ABSENT, False), (IMPOSSIBLE, True)])
def test_the_command_fails_only_if_something_is_missing(monkeypatch, capsys, state, fails):
    diagnoses = [Diagnosis(state, "a thing", "get it"), Diagnosis(OK, "another")]
    monkeypatch.setattr(doctor, "CHECKS", (lambda: iter(diagnoses),))
    if fails:
        with pytest.raises(typer.Exit) as end:
            doctor.check_machine()
        assert end.value.exit_code == 1
    else:
        doctor.check_machine()
    assert capsys.readouterr().out.splitlines() == [
        f"{state:<8}a thing", "        get it", "ok      another"
    ]  # fmt: skip


def requires(monkeypatch, *lines: str) -> dict[str, Diagnosis]:
    """What is diagnoses where the package asks for these; by what needs it."""
    monkeypatch.setattr(doctor.metadata, "requires", lambda _: list(lines))
    _, library, studies = doctor.check_versions()
    return {"library": library, "studies": studies}


def test_a_package_of_the_library_that_is_not_installed_is_missing(monkeypatch):
    diagnoses = requires(monkeypatch, "no-such-package>=1")
    assert diagnoses["library"].state == IMPOSSIBLE
    assert "no-such-package is not installed" in diagnoses["library"].fact
    assert diagnoses["studies"].state == OK


def test_a_package_of_studies_in_another_version_is_absent(monkeypatch):
    diagnoses = requires(monkeypatch, "pytest<1; extra == 'workflow'")
    assert diagnoses["library"].state == OK
    assert diagnoses["studies"].state == ABSENT
    assert "not <1" in diagnoses["studies"].fact


@pytest.mark.fault("network", "the hub is unreachable", "a one-line error message gives its URL")
def test_an_unreachable_hub_is_absent_and_the_remedy_names_a_mirror(monkeypatch, tmp_path):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://localhost:9")  # nobody listens
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    cache, hub = doctor.check_hub()
    assert cache.state == OK
    assert (hub.state, "HF_ENDPOINT" in hub.remedy) == (ABSENT, True)


def test_a_slurm_that_does_not_answer_differs_from_none(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    (none,) = doctor.check_slurm()
    for name, text in (("sbatch", ""), ("sinfo", "exit 1")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (silent,) = doctor.check_slurm()
    (tmp_path / "sinfo").write_text("#!/bin/sh\necho cpu\necho gpu\n")
    (answers,) = doctor.check_slurm()
    assert [none.state, silent.state, answers.state] == [ABSENT, ABSENT, OK]
    assert none.fact != silent.fact
    assert "cpu, gpu" in answers.fact
