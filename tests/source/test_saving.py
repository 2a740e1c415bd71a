"""Models in folders of Hugging Face, whatever files their tokenizers have."""

import copy

from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from lexigraft.source.saving import save_model


def test_each_of_several_chat_templates_is_among_the_files(smollm2_cut, tmp_path):
    tokenizer = copy.deepcopy(smollm2_cut)
    tokenizer.chat_template = {"default": "{{ messages }}", "tool_use": "{{ tools }}"}
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=8, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=1,
    )  # fmt: skip
    files = save_model(LlamaForCausalLM(config), tokenizer, tmp_path)
    assert {"model.safetensors", "additional_chat_templates/tool_use.jinja"} <= {*files}
    assert all((tmp_path / file).is_file() for file in files)
    assert AutoTokenizer.from_pretrained(tmp_path).chat_template == tokenizer.chat_template
