"""Rule measure_fragmentation: how a vocabulary cuts text, without any model."""

from pathlib import Path

from lexigraft.atomic import write_json
from lexigraft.evaluation.fragmentation import fragmentation
from lexigraft.evaluation.new_tokens import new_token_ids
from lexigraft.evaluation.texts import member_sentences, sentences, translation_pairs
from lexigraft.job import Job, run
from lexigraft.provenance import versions
from lexigraft.source.model import load_tokenizer, open_source


def stage(job: Job) -> None:
    corpus, adapted = job["inputs"]["corpus"], Path(job["inputs"]["tokenizer"])
    source = load_tokenizer(open_source(Path(job["inputs"]["source"])).folder)
    # An unchanged vocabulary is the source's own folder, which may only point to its tokenizer.
    target = load_tokenizer(adapted) if (adapted / "vocabulary.json").exists() else source
    new = new_token_ids(adapted)
    texts = {name: sentences(corpus, name) for name in ("heldout", "english", "train")}
    pairs = [(pair["source"], pair["target"]) for pair in translation_pairs(corpus)]
    members = {
        member: fragmentation(source, target, new=new, heldout=lines)
        for member, lines in member_sentences(corpus).items()
    }
    write_json(
        job["outputs"]["file"],
        {
            **job["cell"],
            "metrics": fragmentation(source, target, new=new, **texts, parallel=pairs),
            "members": members,
            "details": {name: len(lines) for name, lines in texts.items()}
            | {"parallel": len(pairs), "source_size": len(source), "size": len(target)},
            "settings": job["settings"],
            "versions": versions(),
        },
    )


if __name__ == "__main__":
    run(stage)
