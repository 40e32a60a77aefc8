"""German and English inflection as functions from forms to forms.

Cases are "nom", "acc", "dat", "gen"; genders "m", "f", "n", and "p" for the plural, which has one
declension for all genders. The six persons of a paradigm are ich, du, er, wir, ihr, sie.
"""

from itertools import pairwise

CASES = ("nom", "acc", "dat", "gen")
_DEFINITE = {"m": ("der", "den", "dem", "des"), "f": ("die", "die", "der", "der"),
             "n": ("das", "das", "dem", "des"), "p": ("die", "die", "den", "der")}
_STRONG = {"m": ("er", "en", "em", "es"), "f": ("e", "e", "er", "er"),
           "n": ("es", "es", "em", "es"), "p": ("e", "e", "en", "er")}
_EIN_WORDS = ("ein", "kein", "mein", "dein", "sein", "ihr", "Ihr", "unser", "euer")
_CONTRACTIONS = {
    ("in", "dem"): "im", ("an", "dem"): "am", ("von", "dem"): "vom", ("zu", "dem"): "zum",
    ("bei", "dem"): "beim", ("zu", "der"): "zur", ("in", "das"): "ins", ("an", "das"): "ans",
}
_VOWELS = "aeiouäöü"


def _bare(word: str, case: str, gender: str) -> bool:
    """Whether an ein-word stands without an ending: ein Mann, ein Kind (nom.), ein Kind (acc.)."""
    return word in _EIN_WORDS and (case, gender) in {("nom", "m"), ("nom", "n"), ("acc", "n")}


def determiner(word: str, case: str, gender: str) -> str:
    """The form of "der", of an ein-word ("mein") or of the stem of a der-word ("dies", "jed")."""
    if word == "der":
        return _DEFINITE[gender][CASES.index(case)]
    if _bare(word, case, gender):
        return word
    return ("eur" if word == "euer" else word) + _STRONG[gender][CASES.index(case)]


def adjective_declension(word: str) -> str:
    """Weak after a der-word, mixed after an ein-word, strong without either (also after zwei)."""
    return "mixed" if word in _EIN_WORDS else "weak" if word else "strong"


def adjective(stem: str, word: str, case: str, gender: str) -> str:
    """An attributive adjective after the determiner "word" (empty for none).

    Some word before the noun shows the case: the adjective takes the strong ending where the
    determiner is missing or without an ending, else the weak one. The strong genitive of m and n
    is -en, since the noun's own -s shows the case.
    """
    if not word or _bare(word, case, gender):
        masculine_genitive = case == "gen" and gender in "mn"
        ending = "en" if masculine_genitive else _STRONG[gender][CASES.index(case)]
    elif (case == "nom" and gender != "p") or (case == "acc" and gender in "fn"):
        ending = "e"
    else:
        ending = "en"
    return stem + (ending[1:] if stem.endswith("e") else ending)


def noun(singular: str, plural: str, gender: str, case: str,
         weak: bool = False, genitive: str = "") -> str:
    """The form of a noun; gender "p" asks for the plural.

    The dative plural adds -n unless the plural ends in n or s. Masculines of the n-declension take
    the plural form in all cases but the nominative. Other masculines and neuters add -s in the
    genitive, -es after one syllable or a sibilant; "genitive" overrides that where not empty.
    """
    if gender == "p":
        return plural + ("n" if case == "dat" and plural[-1] not in "ns" else "")
    if case == "gen" and genitive:
        return genitive
    if weak and case != "nom":
        return plural
    if case != "gen" or gender == "f":
        return singular
    vowels = [letter in _VOWELS for letter in singular.lower() + " "]
    syllables = sum(now and not after for now, after in pairwise(vowels))
    short = syllables == 1 and not vowels[-2]
    return singular + ("es" if short or singular[-1] in "sßxz" else "s")


def contract(preposition: str, article: str) -> str | None:
    """The contraction of a preposition with a definite article (in dem - im), or None."""
    return _CONTRACTIONS.get((preposition, article))


def _stem(infinitive: str) -> str:
    """The infinitive without -en or -n (kauf-en, wander-n)."""
    return infinitive.removesuffix("n").removesuffix("e")


def _needs_e(stem: str) -> bool:
    """Whether -st and -t need a linking e: arbeit-e-t, öffn-e-t, but lern-t, komm-t, wohn-t."""
    return stem[-1] in "dt" or (stem[-1] in "mn" and stem[-2] not in _VOWELS + "lrhmn")


def present(infinitive: str, third: str) -> list[str]:
    """The six present forms; the third person singular shows a changed stem vowel (fährt)."""
    stem = _stem(infinitive)
    first = stem[:-2] + "le" if stem.endswith("el") else stem + "e"
    if third.endswith("et") and _needs_e(stem):
        second = third[:-1] + "st"
    elif stem[-1] == "t":  # hält: the ending has merged with the stem
        second = third + "st"
    else:
        second = third if third[-2] in "sßxz" else third[:-1] + "st"
    return [first, second, third, infinitive, stem + ("et" if _needs_e(stem) else "t"), infinitive]


def preterite(first: str) -> list[str]:
    """The six preterite forms from the first person: kaufte, kauftest ... ging, gingst ..."""
    if first.endswith("e"):
        endings = ["", "st", "", "n", "t", "n"]
    else:
        endings = ["", "est" if first[-1] in "dtsßz" else "st", "",
                   "en", "et" if first[-1] in "dt" else "t", "en"]
    return [first + ending for ending in endings]


def imperative(infinitive: str, third: str) -> str:
    """The form for "du": a change from e to i stays (gib), an umlaut does not (fahr)."""
    stem, changed = _stem(infinitive), third[:-1]
    if "i" in changed and "i" not in stem:
        return changed
    if stem.endswith("el"):
        return stem[:-2] + "le"
    return stem + "e" if _needs_e(stem) or stem.endswith("er") else stem


def english_s(word: str) -> str:
    """A noun's plural or a verb's third person: -s, -es after a sibilant or o, -ies for y."""
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    sibilant = word.endswith(("s", "x", "z", "ch", "sh"))
    return word + ("es" if sibilant or word in ("go", "do") else "s")


def _doubled(verb: str) -> str:
    """The verb with its last consonant doubled if one short vowel comes before it: plan - plann."""
    vowels = [letter in "aeiou" for letter in verb]
    short = len(verb) > 2 and vowels[-3:] == [False, True, False] and sum(vowels) == 1
    return verb + verb[-1] if short and verb[-1] not in "wxy" else verb


def english_past(verb: str) -> str:
    """The regular past: -ed, -d after e, -ied for y, with a doubled consonant in "planned"."""
    if verb.endswith("e"):
        return verb + "d"
    y = verb.endswith("y") and verb[-2] not in "aeiou"
    return verb[:-1] + "ied" if y else _doubled(verb) + "ed"


def english_ing(verb: str) -> str:
    """The -ing form: final e is dropped, ie becomes y, a consonant after a short vowel doubles."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb.endswith("e") and verb[-2] not in "eo":
        return verb[:-1] + "ing"
    return _doubled(verb) + "ing"


def english_be(past: bool, person: int, plural: bool) -> str:
    """The present or past of "be"."""
    if plural or person == 2:
        return "were" if past else "are"
    return "was" if past else "am" if person == 1 else "is"


def indefinite(following: str) -> str:
    """Return "an" before a vowel sound; no word of the lexicon has a silent h."""
    return "an" if following[0] in "aeiou" and not following.startswith(("uni", "use")) else "a"
