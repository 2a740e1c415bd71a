from lexigraft.initialization.examples import examples
from lexigraft.initialization.registry import initializer


def chain(count):
    return [("a" + "b" * n, "b") for n in range(count)]


def test_examples_reach_from_the_first_to_the_last_and_the_shortest_to_the_longest(byte_level):
    fitted = initializer("mean").fit(byte_level([]), byte_level([*chain(40), ("y", "z")]))
    shown = [example["text"] for example in examples(fitted)]
    assert {"yz", "ab", "a" + "b" * 40} <= set(shown)
    assert 6 <= len(shown) <= 12


def test_a_small_vocabulary_is_shown_whole(byte_level):
    fitted = initializer("mean").fit(byte_level([]), byte_level(chain(3)))
    assert [example["token"] for example in examples(fitted)] == ["ab", "abb", "abbb"]
    assert examples(fitted)[0]["parts"] == [["a", 0.5], ["b", 0.5]]


def test_long_recipes_are_cut_and_say_how_much_is_missing(byte_level):
    source = byte_level([])
    fitted = initializer("mean-of-all").fit(source, byte_level(chain(1)))
    (example,) = examples(fitted)
    assert len(example["parts"]) + example["more"] == len(source)
    assert len(example["parts"]) == 12


def test_drawn_rows_have_no_parts(byte_level):
    fitted = initializer("random").fit(byte_level([]), byte_level(chain(1)))
    assert examples(fitted)[0]["parts"] == []


def test_nothing_new_gives_no_examples(byte_level):
    assert examples(initializer("mean").fit(byte_level([]), byte_level([]))) == []


def test_special_tokens_are_no_examples(byte_level):
    target = byte_level(chain(2), pad_token="<pad>")
    fitted = initializer("mean").fit(byte_level([]), target)
    assert target.pad_token_id in fitted.new_ids
    assert [example["token"] for example in examples(fitted)] == ["ab", "abb"]
