"""A pair of the generated corpus whose words are aligned out of order."""

import pytest

from translate.data.sample.corpus import Pair


@pytest.fixture
def pair() -> Pair:
    return Pair(["perfect", "plural"], [(0, 0), (1, 1), (5, 1), (2, 3), (3, 4), (4, 2), (6, 5)],
                ["Sie", "hat", "die", "Hunde", "gern", "gesehen", "."],
                ["She", "saw", "gladly", "the", "dogs", "."])
