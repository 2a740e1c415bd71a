"""The example of docs/library.md runs, on the text and the model at hand."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


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


def test_every_initializer_of_the_registry_is_on_the_methods_page():
    import yaml

    registry = yaml.safe_load((REPOSITORY / "config/initializers.yaml").read_text())
    page = (REPOSITORY / "docs/methods.md").read_text(encoding="utf-8")
    assert [name for name in registry["initializers"] if f"`{name}`" not in page] == []


def test_every_link_to_a_file_leads_somewhere():
    docs = (REPOSITORY / "docs").rglob("*.md")
    # Links of a template are those of the page that is made of it.
    pages = [*REPOSITORY.glob("*.md"), *(page for page in docs if "templates" not in page.parts)]
    pages += (REPOSITORY / "config").rglob("*.md")
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
