"""The example of docs/library.md runs, on the text and the model at hand."""

import json
import re
from pathlib import Path

import yaml

from tests.conftest import REPOSITORY


def test_the_example_of_the_library_page_runs(
    tmp_path, monkeypatch, capsys, telugu, smollm2_folder_tiny
):
    monkeypatch.chdir(tmp_path)
    Path("telugu.txt").write_text("\n".join(telugu), encoding="utf-8")
    page = (REPOSITORY / "docs/library.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert example
    code = example[1].replace("HuggingFaceTB/SmolLM2-135M", str(smollm2_folder_tiny))
    exec(compile(code, "docs/library.md", "exec"), {})
    before, after = map(int, re.findall(r"^(\d+) -> (\d+)$", capsys.readouterr().out, re.M)[0])
    assert after < before

    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained("grafted")
    assert model.get_input_embeddings().weight.shape[0] == len(
        AutoTokenizer.from_pretrained("grafted")
    )


def test_the_cells_of_the_notebook_run_in_order(
    tmp_path, monkeypatch, capsys, telugu, smollm2_folder_tiny
):
    monkeypatch.chdir(tmp_path)
    Path("telugu.txt").write_text("\n".join(telugu), encoding="utf-8")
    notebook = json.loads((REPOSITORY / "docs/library.ipynb").read_text(encoding="utf-8"))
    first, *cells = ("".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code")
    names: dict = {}
    exec(first, names)
    assert {"MODEL", "TEXT", "OUT", "NEW_TOKENS"} <= names.keys()
    names.update(MODEL=str(smollm2_folder_tiny), TEXT="telugu.txt", OUT="grafted", NEW_TOKENS=100)
    for cell in cells:
        exec(compile(cell, "docs/library.ipynb", "exec"), names)
    assert (tmp_path / "grafted" / "model.safetensors").exists()
    printed = capsys.readouterr().out
    assert {"source", *names["fitted"]} <= set(
        re.findall(r"^(\w+) .* bits per byte", printed, re.M)
    )


def test_outputs_of_the_notebook_are_text_and_short():
    notebook = json.loads((REPOSITORY / "docs/library.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"stream"}
    assert sum(len("".join(output["text"])) for output in outputs) < 4000


def test_every_page_is_in_the_navigation_of_the_site():
    site = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = re.findall(r"'([^']+\.md)'", str(site["nav"]))
    folders = (REPOSITORY / "docs", REPOSITORY / "docs/studies")
    pages = {str(page.relative_to(REPOSITORY)) for one in folders for page in one.glob("*.md")}
    assert pages - set(listed) == set()
    of_site = ("docs/reference/", "docs/library.ipynb.md")
    written = [page for page in listed if not page.startswith(of_site)]
    assert [page for page in written if not (REPOSITORY / page).is_file()] == []


def test_every_initializer_of_the_registry_is_on_the_methods_page():
    registry = yaml.safe_load((REPOSITORY / "config/initializers.yaml").read_text())
    page = (REPOSITORY / "docs/methods.md").read_text(encoding="utf-8")
    assert [name for name in registry["initializers"] if f"`{name}`" not in page] == []


def test_every_file_that_a_page_links_to_exists():
    for page in (
        path
        for folder in ("*.md", "docs/**/*.md", "config/**/*.md")
        for path in REPOSITORY.glob(folder)
    ):
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
