"""CTranslate2 with our weights: the same numbers, the same greedy search, the same scores."""

import math
import random
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from translate.config import Config
from translate.data.encoding import TextSide
from translate.data.text import TextPipeline
from translate.data.vocabulary import EOS, PAD, SOS, SPECIALS, UNK, Vocabulary
from translate.decoding.ctranslate2_engine import CTranslate2
from translate.decoding.ctranslate2_model import write_model
from translate.decoding.request import Request
from translate.decoding.sampling import Sampling
from translate.decoding.search import search
from translate.decoding.translator import Translator
from translate.errors import UserError
from translate.model.transformer import Transformer
from translate.runs import build_model

pytest.importorskip("ctranslate2")

# Whatever a corpus may hold: nothing of it is white space, a line break or special to the library.
ODD = ["", " ", "\n", "\r\n", "\t", "\0", "\u2028", "\ufeff", "\u0301", "▁", "🐻", "<s>", "</s>",
       "<blank>", "<0x0A>", "｟a｠", '"', "\\", "#", "’"]
SOURCE = Vocabulary([*SPECIALS, *ODD, *(f"▁wort{n}" for n in range(36))])
TARGET = Vocabulary([*SPECIALS, *(f"▁word{n}" for n in range(36)), *ODD])


class Both(NamedTuple):
    """One model, in PyTorch and in CTranslate2."""

    model: Transformer
    config: Config
    engine: CTranslate2

    def ours(self, request: Request) -> Any:
        return search([self.model], self.config.decoding, [request])[0]

    def theirs(self, request: Request) -> Any:
        (answer,) = self.engine([request])
        return answer

    def forced(self, source: list[int], tokens: list[int]) -> float:
        """What our model makes of a translation."""
        tgt = torch.tensor([[SOS, *tokens]])
        length = tgt.size(1)
        logits = self.model(torch.tensor([[*source, EOS]]), tgt,
                            torch.ones(1, 1, 1, len(source) + 1, dtype=torch.bool),
                            torch.ones(1, 1, length, length, dtype=torch.bool).tril())
        step = logits[0].log_softmax(dim=-1)
        return float(step[range(length), [*tokens, EOS]].sum().detach())


@cache
def sides() -> tuple[TextSide, TextSide]:
    return (TextSide(TextPipeline("de", False, None), SOURCE),
            TextSide(TextPipeline("en", False, None), TARGET))


def both(
    folder: Path, model: dict[str, Any] | None = None, prefer: dict[int, float] | None = None,
    quantization: str = "float32", workers: int = 1, **decoding: Any,
) -> Both:
    """Random weights, and `prefer` added to the logits of some target tokens."""
    sizes = {"d_model": 32, "heads": 4, "encoder_layers": 2, "decoder_layers": 3, "d_ff": 48,
             "norm": "pre", "tie_output": False}
    config = Config.model_validate({
        "name": "x", "device": "cpu", "data": {"corpus": "sample", "max_length": 10},
        "text": {"subwords": {}}, "model": sizes | (model or {}), "decoding": decoding})
    torch.manual_seed(7)
    transformer = build_model(config, len(SOURCE), len(TARGET)).eval()
    with torch.no_grad():
        for parameter in transformer.parameters():  # none of them is 0 or 1 for all
            parameter += 0.1 * torch.randn_like(parameter)
        for bias in (transformer.encoder_bias, transformer.decoder_bias):
            if bias is not None:
                bias.bias.normal_()
        if not config.model.tie_output:
            transformer.output.weight *= 2
        # A direction that all states share, for the logits that are the same at every step.
        last = (transformer.decoder_norm if config.model.norm == "pre"
                else transformer.decoder[-1].around_feed_forward.norm)
        last.weight[0], last.bias[0] = 0, 4
        transformer.output.weight[:, 0] = 0
        for token, by in {EOS: 3.0, **(prefer or {})}.items():
            transformer.output.weight[token, 0] = by / 4
    folder.mkdir(exist_ok=True)
    write_model(transformer, config, SOURCE, TARGET, quantization, folder)
    return Both(transformer, config, CTranslate2(folder, *sides(), config, workers))


def sentences(number: int, longest: int = 20, beam: int = 1, n_best: int = 1,
              room: int = 12) -> Request:
    chance = random.Random(1)
    ids = [UNK, *range(len(SPECIALS), len(SOURCE))]
    sources = [chance.choices(ids, k=chance.randint(1, longest)) for _ in range(number)]
    return Request(sources, [len(ids) // 2 + room for ids in sources], beam, n_best)


def assert_same(found: Any, expected: Any) -> None:
    for some, others in zip(found, expected, strict=True):
        assert [one.tokens for one in some] == [one.tokens for one in others]
        for kind in ("log_probability", "score"):
            assert [getattr(one, kind) for one in some] == pytest.approx(
                [getattr(one, kind) for one in others], abs=1e-3)


def test_greedy_search_equals_ours_on_200_sentences(tmp_path: Path) -> None:
    model = both(tmp_path, {"positions": "learned"})
    request = sentences(200)
    found = model.theirs(request)
    assert_same(found, model.ours(request))
    lengths = [len(best.tokens) + 1 for best, in found]
    at_limit = sum(map(int.__eq__, lengths, request.limits))
    assert 50 < at_limit < 150 and len(set(lengths)) > 15
    assert len({tuple(best.tokens) for best, in found}) > 100
    # Every token of the vocabularies went in, and most of the odd ones came out.
    assert {i for ids in request.sources for i in ids} >= set(range(4, len(SOURCE)))
    assert sum(any(i in best.tokens for best, in found)
               for i in range(len(TARGET) - len(ODD), len(TARGET))) > len(ODD) // 2


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative"])
@pytest.mark.parametrize(("activation", "tie_output"), [("relu", True), ("gelu", False)])
def test_every_option_of_the_model_is_expressed(
    tmp_path: Path, norm: str, positions: str, activation: str, tie_output: bool
) -> None:
    model = both(tmp_path, {"norm": norm, "positions": positions, "activation": activation,
                            "tie_output": tie_output})
    assert_same(model.theirs(sentences(10)), model.ours(sentences(10)))
    # Farther from end to end than the buckets of relative positions reach.
    chance = random.Random(2)
    source, target = (chance.choices(range(4, len(SOURCE)), k=length) for length in (300, 200))
    tokens = tuple(TARGET.tokens[i] for i in target)
    found = model.engine._score(source, [tokens])[tokens]
    assert found == pytest.approx(model.forced(source, target), rel=1e-6)


@pytest.mark.parametrize(("tie_source", "tie_output"), [(True, True), (True, False)])
def test_one_embedding_for_both_languages_is_expressed(
    tmp_path: Path, tie_source: bool, tie_output: bool
) -> None:
    model = both(tmp_path, {"tie_source": tie_source, "tie_output": tie_output})
    assert_same(model.theirs(sentences(10)), model.ours(sentences(10)))


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_beam_finds_on_average_what_ours_finds(tmp_path: Path, alpha: float) -> None:
    model = both(tmp_path, {"positions": "learned"}, {EOS: 2.5}, length_penalty=alpha)
    request = sentences(80, beam=4)
    pairs = [(a, b) for (a,), (b,) in zip(model.theirs(request), model.ours(request), strict=True)]
    assert sum(a.tokens == b.tokens for a, b in pairs) > 0.75 * len(pairs)
    assert sum(a.score - b.score for a, b in pairs) / len(pairs) > -0.1


def test_a_beam_that_nothing_but_the_limit_ends_is_ours(tmp_path: Path) -> None:
    model = both(tmp_path, {"positions": "learned"}, {EOS: -9.0, PAD: -20.0, SOS: -20.0})
    request = sentences(12, beam=4, n_best=4)
    request = request._replace(limits=[1 + n // 2 for n in range(12)])
    assert_same(model.theirs(request), model.ours(request))


def test_all_of_a_long_source_is_read(tmp_path: Path) -> None:
    model = both(tmp_path, {"positions": "relative"})
    source = random.Random(3).choices(range(4, len(SOURCE)), k=1_500)
    request = Request([source, source[:1_000]], [9, 9], beam=1)
    found = model.theirs(request)
    assert_same(found, model.ours(request))
    assert found[0][0].log_probability != pytest.approx(found[1][0].log_probability, abs=1e-3)


@pytest.mark.parametrize("constraints", [
    {}, {"forbid_unk": True}, {"min_length": 4}, {"no_repeat_ngram": 2}])
def test_every_hypothesis_has_the_score_that_our_model_gives_it(
    tmp_path: Path, constraints: dict[str, Any]
) -> None:
    model = both(tmp_path, {"positions": "learned"}, {EOS: 2.0, UNK: 1.0}, **constraints)
    request = sentences(15, beam=5, n_best=3, room=1)  # most are cut at the limit
    for source, limit, best in zip(request.sources, request.limits, model.theirs(request),
                                   strict=True):
        assert 0 < len(best) <= 3
        assert len({tuple(one.tokens) for one in best}) == len(best)
        assert [one.score for one in best] == sorted((one.score for one in best), reverse=True)
        for one in best:
            assert len(one.tokens) < limit
            assert one.log_probability == pytest.approx(model.forced(source, one.tokens), abs=1e-3)
            penalty = ((5 + len(one.tokens) + 1) / 6) ** 0.6
            assert one.score == pytest.approx(one.log_probability / penalty)


@pytest.mark.parametrize("constraints", [
    {"forbid_unk": True}, {"min_length": 9}, {"no_repeat_ngram": 1}, {"no_repeat_ngram": 2},
    {"forbid_unk": True, "min_length": 5, "no_repeat_ngram": 3}])
def test_greedy_search_obeys_what_constrains_ours(
    tmp_path: Path, constraints: dict[str, Any]
) -> None:
    model = both(tmp_path, {"positions": "learned"}, {UNK: 2.5}, **constraints)
    request = sentences(25)
    found = model.theirs(request)
    assert_same(found, model.ours(request))
    free = both(tmp_path, {"positions": "learned"}, {UNK: 2.5}).theirs(request)
    assert sum(a[0].tokens != b[0].tokens for a, b in zip(found, free, strict=True)) > 5


@pytest.mark.parametrize("token", [PAD, SOS])
def test_padding_and_the_start_are_never_produced(tmp_path: Path, token: int) -> None:
    model = both(tmp_path, {"positions": "learned"}, {token: 4.0})
    request = sentences(25)
    assert_same(model.theirs(request), model.ours(request))
    for best in model.theirs(request._replace(beam=4, n_best=4)):
        assert not any({PAD, SOS} & {*one.tokens} for one in best)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_translation_does_not_depend_on_its_neighbours_or_on_workers(
    tmp_path: Path, beam: int
) -> None:
    model = both(tmp_path, {"positions": "learned"}, workers=2)
    request = sentences(30, beam=beam, n_best=beam)
    together = model.theirs(request)
    alone = [request._replace(sources=[source], limits=[limit])
             for source, limit in zip(request.sources, request.limits, strict=True)]
    assert_same([best for best, in model.engine(alone)], together)


@pytest.mark.parametrize("beam", [1, 3])
def test_learned_positions_end_a_translation(tmp_path: Path, beam: int) -> None:
    model = both(tmp_path, {"positions": "learned", "max_positions": 20}, prefer={EOS: -9.0},
                 max_length_extra=20)
    assert model.engine.positions == 20
    translator = Translator([], *sides(), model.config, model.engine, model.engine.positions)
    for best, *_ in translator.translate(["▁wort1 " * n for n in (1, 4, 7, 9, 10)], beam):
        assert len(best.tokens) == 19
    assert both(tmp_path, {"positions": "relative"}).engine.positions == sys.maxsize


def test_translator_takes_it_in_place_of_our_search(tmp_path: Path) -> None:
    model = both(tmp_path, {"positions": "learned"}, max_length_factor=0.5, max_length_extra=12)
    ids = sentences(30).sources
    lines = [" ".join(SOURCE.tokens[i].strip("▁") for i in line if i >= 24) for line in ids]
    ours = Translator([model.model], *sides(), model.config)
    theirs = Translator([], *sides(), model.config, model.engine)
    for found, expected in zip(theirs.translate(lines, 1), ours.translate(lines, 1), strict=True):
        for kind in ("text", "tokens", "cut"):
            assert getattr(found[0], kind) == getattr(expected[0], kind)
        assert math.isclose(found[0].score, expected[0].score, abs_tol=1e-3)


def test_int8_is_a_third_as_large_and_nearly_as_sure(tmp_path: Path) -> None:
    options = {"positions": "learned", "d_ff": 256, "max_positions": 40}
    exact = both(tmp_path / "float32", options)
    before = {name: tensor.clone() for name, tensor in exact.model.state_dict().items()}
    small = both(tmp_path / "int8", options, quantization="int8")
    for name, tensor in small.model.state_dict().items():  # only the copy is quantised
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)
    sizes = [(tmp_path / kind / "model.bin").stat().st_size for kind in ("int8", "float32")]
    assert sizes[0] < sizes[1] / 3
    request = sentences(30)
    assert sum(a[0].tokens[:3] == b[0].tokens[:3] for a, b in zip(
        small.theirs(request), exact.theirs(request), strict=True)) > 20


def test_what_it_cannot_do_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = both(tmp_path)
    with pytest.raises(UserError, match="draws tokens"):
        model.theirs(sentences(1)._replace(sampling=Sampling()))
    with pytest.raises(UserError, match=r"replace_unk=true.*cross-attention"):
        both(tmp_path / "other", replace_unk=True)
    (tmp_path / "model.bin").write_bytes(b"\0" * 100)
    with pytest.raises(UserError, match="cannot load"):
        CTranslate2(tmp_path, *sides(), model.config)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(UserError, match=r"pip install --constraint .* '\.\[export\]'"):
        CTranslate2(tmp_path, *sides(), model.config)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_translator_keeps_to_the_positions_that_the_table_has(
    tmp_path: Path, positions: str
) -> None:
    model = both(tmp_path, {"positions": positions, "max_positions": 12}, prefer={EOS: -9.0})
    translator = Translator([], *sides(), model.config, model.engine, model.engine.positions)
    for lines in (["▁wort1 " * 5], ["▁wort1 " * 30]):
        best = translator.translate(lines, 1)[0][0]
        assert best.cut and len(best.tokens) % 11 == 0
