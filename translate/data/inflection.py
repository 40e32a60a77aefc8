"""German and English inflection as functions from forms to forms.

Cases are "nom", "acc", "dat", "gen"; genders "m", "f", "n", and "p" for the plural, which has one
declension for all genders. The six persons of a paradigm are ich, du, er, wir, ihr, sie.
"""

CASES = ("nom", "acc", "dat", "gen")
_DEFINITE = {
    "m": ("der", "den", "dem", "des"),
    "f": ("die", "die", "der", "der"),
    "n": ("das", "das", "dem", "des"),
    "p": ("die", "die", "den", "der"),
}
_STRONG = {
    "m": ("er", "en", "em", "es"),
    "f": ("e", "e", "er", "er"),
    "n": ("es", "es", "em", "es"),
    "p": ("e", "e", "en", "er"),
}
_EIN_WORDS = ("ein", "kein", "mein", "dein", "sein", "ihr", "Ihr", "unser", "euer")
_CONTRACTIONS = {
    ("in", "dem"): "im", ("an", "dem"): "am", ("von", "dem"): "vom", ("zu", "dem"): "zum",
    ("bei", "dem"): "beim", ("zu", "der"): "zur", ("in", "das"): "ins", ("an", "das"): "ans",
}  # fmt: skip
_VOWELS = "aeiouäöü"


def _bare(determiner: str, case: str, gender: str) -> bool:
    """Whether an ein-word stands without an ending: ein Mann, ein Kind (nom.), ein Kind (acc.)."""
    forms = {("nom", "m"), ("nom", "n"), ("acc", "n")}
    return determiner in _EIN_WORDS and (case, gender) in forms


def determiner(word: str, case: str, gender: str) -> str:
    """The form of "der", of an ein-word ("mein") or of the stem of a der-word ("dies", "jed")."""
    if word == "der":
        return _DEFINITE[gender][CASES.index(case)]
    if _bare(word, case, gender):
        return word
    stem = "eur" if word == "euer" else word
    return stem + _STRONG[gender][CASES.index(case)]


def relative_pronoun(case: str, gender: str) -> str:
    """The article's forms, save for the dative plural "denen"."""
    return "denen" if (case, gender) == ("dat", "p") else determiner("der", case, gender)


def adjective_declension(word: str) -> str:
    """Weak after a der-word, mixed after an ein-word, strong without either (also after zwei)."""
    if not word:
        return "strong"
    return "mixed" if word in _EIN_WORDS else "weak"


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


def comparative(lemma: str) -> str:
    """The regular comparative: -er, after a final e only -r."""
    return lemma + ("r" if lemma.endswith("e") else "er")


def noun(singular: str, plural: str, gender: str, case: str, weak: bool, genitive: str) -> str:
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
    groups = sum(
        a in _VOWELS and b not in _VOWELS
        for a, b in zip(singular.lower(), singular[1:] + " ", strict=True)
    )
    short = groups == 1 and singular[-1] not in _VOWELS
    return singular + ("es" if short or singular[-1] in "sßxz" else "s")


def contract(preposition: str, article: str) -> str | None:
    """The contraction of a preposition with a definite article (in dem - im), or None."""
    return _CONTRACTIONS.get((preposition, article))


def stem(infinitive: str) -> str:
    """The infinitive without -en or -n (wander-n, kauf-en)."""
    return infinitive[:-2] if infinitive.endswith("en") else infinitive[:-1]


def _needs_e(root: str) -> bool:
    """Whether -st and -t need a linking e: arbeit-e-t, öffn-e-t, but lern-t, komm-t, wohn-t."""
    return root[-1] in "dt" or (root[-1] in "mn" and root[-2] not in _VOWELS + "lrhmn")


def present(infinitive: str, third: str) -> list[str]:
    """The six present forms; the third person singular shows a changed stem vowel (fährt)."""
    root = stem(infinitive)
    first = root[:-2] + "le" if root.endswith("el") else root + "e"
    if third.endswith("et") and _needs_e(root):
        second = third[:-1] + "st"
    elif root[-1] == "t":  # hält: the ending has merged with the stem
        second = third + "st"
    else:
        second = third if third[-2] in "sßxz" else third[:-1] + "st"
    plural_second = root + ("et" if _needs_e(root) else "t")
    return [first, second, third, infinitive, plural_second, infinitive]


def preterite(first: str) -> list[str]:
    """The six preterite forms from the first person: kaufte, kauftest ... ging, gingst ..."""
    if first.endswith("e"):
        return [first, first + "st", first, first + "n", first + "t", first + "n"]
    second = first + ("est" if first[-1] in "dtsßz" else "st")
    return [
        first,
        second,
        first,
        first + "en",
        first + ("et" if first[-1] in "dt" else "t"),
        first + "en",
    ]


def imperative(infinitive: str, third: str) -> str:
    """The form for "du": a change from e to i stays (gib), an umlaut does not (fahr)."""
    root = stem(infinitive)
    changed = third[:-1]
    if "i" in changed and "i" not in root:
        return changed
    if root.endswith("el"):
        return root[:-2] + "le"
    return root + "e" if _needs_e(root) or root.endswith("er") else root


def english_s(word: str) -> str:
    """A noun's plural or a verb's third person: -s, -es after a sibilant or o, -ies for y."""
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + (
        "es" if word.endswith(("s", "x", "z", "ch", "sh")) or word in ("go", "do") else "s"
    )


def _doubled(verb: str) -> str:
    """The verb with its last consonant doubled if one short vowel comes before it: plan - plann."""
    vowels = [letter in "aeiou" for letter in verb]
    short = len(verb) > 2 and vowels[-3:] == [False, True, False] and sum(vowels) == 1
    return verb + verb[-1] if short and verb[-1] not in "wxy" else verb


def english_past(verb: str) -> str:
    """The regular past: -ed, -d after e, -ied for y, with a doubled consonant in "planned"."""
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ied"
    return _doubled(verb) + "ed"


def english_ing(verb: str) -> str:
    """The -ing form: final e is dropped, ie becomes y, a consonant after a short vowel doubles."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb.endswith("e") and verb[-2] not in "eo":
        return verb[:-1] + "ing"
    return _doubled(verb) + "ing"


def english_be(tense: str, person: int, plural: bool) -> str:
    """The present or past of "be"."""
    if plural or person == 2:
        return "are" if tense == "present" else "were"
    if tense == "past":
        return "was"
    return "am" if person == 1 else "is"


def indefinite(following: str) -> str:
    """Return "an" before a vowel sound; no word of the lexicon has a silent h."""
    return "an" if following[0] in "aeiou" and not following.startswith(("uni", "use")) else "a"
