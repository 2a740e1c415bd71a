"""Burmese in Zawgyi, told from Unicode and turned into it."""

from unicodedata import normalize

import pytest

from lexigraft.corpus.catalogue import read_catalogue
from lexigraft.corpus.zawgyi import is_zawgyi, to_unicode

# Everyday phrases as both encodings spell them: Zawgyi has the asat of Unicode (U+103A) at U+1039,
# vowel E before its consonant, and stacked and medial consonants at code points of their own.
PHRASES = [
    ("ထမင္းစားၿပီးၿပီလား", "ထမင်းစားပြီးပြီလား"),
    ("ေက်းဇူးတင္ပါတယ္", "ကျေးဇူးတင်ပါတယ်"),
    ("ျမန္မာစာ", "မြန်မာစာ"),
]


@pytest.mark.parametrize(("zawgyi", "unicode"), PHRASES)
def test_a_phrase_is_told_and_converted(zawgyi, unicode):
    assert is_zawgyi(zawgyi)
    assert not is_zawgyi(unicode)
    assert to_unicode(zawgyi) == unicode


def test_of_real_messages_those_are_told_that_somebody_typed_in_zawgyi(kolibri):
    messages = [normalize("NFC", target) for _, target in read_catalogue(kolibri, "my")]
    assert len(messages) > 1500
    assert [message for message in messages if is_zawgyi(message)] == [
        "ေဆာရီးပါ ၎ကိုကၽြႏ္ုပ္နားမလည္ပါ",
        "သင့္အေျဖဟာ မွန္သင့္သေလာက္ မွန္ပါတယ္။ ဒါေပမဲ့ ဒီထက္ရွင္းဖို႔ လုိေသးတယ္။",
        "ဖတ္ေနတဲ့ စာပိုဒ္ရဲ႕ အစ",
        "သင်၏အတန္းအတြက္ သင္တစ္ခုခုေရြးခ်ယ္လိုက္သည္ကိုေသခ်ာေစပါ",
    ]


def test_a_word_that_both_encodings_spell_alike_is_no_zawgyi():
    word = "ဘာသာစကား"
    assert to_unicode(word) == word
    assert not is_zawgyi(word)


def test_text_without_burmese_is_no_zawgyi(telugu, english):
    assert not any(map(is_zawgyi, [*telugu, *english, "", "ខ្មែរ"]))


def test_a_stacked_consonant_and_other_scripts_come_out_right():
    assert to_unicode("Kolibri 3 မဂၤလာပါ!") == "Kolibri 3 မင်္ဂလာပါ!"
