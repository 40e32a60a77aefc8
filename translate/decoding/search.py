"""From a source sentence to target tokens: greedy and beam search, with a key/value cache."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from translate.data.vocabulary import EOS, PAD, SOS
from translate.model.layers import LayerCache
from translate.model.transformer import Transformer


class Hypothesis(NamedTuple):
    """Target ids without `<sos>` and `<eos>`; the log-probability counts `<eos>`."""

    tokens: list[int]
    log_probability: float  # nats, summed in float32
    score: float  # log_probability / length penalty


def length_penalty(length: Tensor | int, alpha: float) -> Tensor:
    """lp(Y) = ((5 + |Y|) / 6)^α (Wu et al. 2016, equation 14); |Y| counts `<eos>`."""
    return ((5.0 + torch.as_tensor(length)) / 6.0) ** alpha


@torch.inference_mode()
def greedy_search(
    model: Transformer,
    src: Int[Tensor, "batch source"],
    src_mask: Bool[Tensor, "batch 1 1 source"],
    limits: Int[Tensor, " batch"],
    alpha: float,
) -> list[Hypothesis]:
    """The likeliest token at every step, until `<eos>` or `limits` tokens, `<eos>` included.

    Finished sentences leave the batch; `alpha` changes their scores alone.
    """
    memory = model.encode(src, src_mask)
    cache = model.start_cache(memory)
    tokens = torch.full((len(src), int(limits.max())), PAD, device=src.device)
    log_probability = torch.zeros(len(src), device=src.device)
    rows = torch.arange(len(src), device=src.device)  # which sentence each live row is
    last = torch.full((len(src), 1), SOS, device=src.device)
    for length in range(1, tokens.size(1) + 1):
        step = _next_log_probabilities(model, last, memory, src_mask, cache)
        _only_eos(step, limits[rows] == length)
        best, last = step.max(dim=-1, keepdim=True)
        tokens[rows, length - 1] = last[:, 0]
        log_probability[rows] += best[:, 0]
        live = last[:, 0] != EOS
        if live.all():
            continue
        live = live.nonzero()[:, 0]
        if not len(live):
            break
        rows, last, memory, src_mask = rows[live], last[live], memory[live], src_mask[live]
        for layer in cache:
            layer.select_target(live)
            layer.select_memory(live)
    lengths = (tokens == EOS).long().argmax(dim=1) + 1
    scores = log_probability / length_penalty(lengths, alpha)
    return [Hypothesis(row[:length - 1], total, score) for row, length, total, score in zip(
        tokens.tolist(), lengths.tolist(), log_probability.tolist(), scores.tolist(), strict=True)]


@torch.inference_mode()
def beam_search(
    model: Transformer,
    src: Int[Tensor, "batch source"],
    src_mask: Bool[Tensor, "batch 1 1 source"],
    limits: Int[Tensor, " batch"],
    beam: int,
    alpha: float,
    n_best: int = 1,
) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses with the highest score found by a beam, the best first.

    A step keeps the `beam` likeliest continuations; those that end in `<eos>` go to the finished
    ones. A sentence is done when nothing that is still alive can score higher than its n-th
    finished hypothesis: log-probabilities only fall, so a live one scores at best its
    log-probability over the penalty of the longest length allowed.
    """
    batch, device = len(src), src.device
    memory = model.encode(src, src_mask).repeat_interleave(beam, dim=0)
    src_mask = src_mask.repeat_interleave(beam, dim=0)
    cache = model.start_cache(memory)
    width = int(limits.max())

    done: list[list[Hypothesis]] = [[] for _ in range(batch)]
    sentence = torch.arange(batch, device=device)
    tokens = torch.full((batch, beam, width), PAD, device=device)
    log_probability = torch.full((batch, beam), -torch.inf, device=device)
    log_probability[:, 0] = 0.0  # all beams are the same at first: one of them counts
    ended = _Ended.none(batch, beam, width, device)
    last = torch.full((batch * beam, 1), SOS, device=device)

    for length in range(1, width + 1):
        step = _next_log_probabilities(model, last, memory, src_mask, cache)
        _only_eos(step, (limits == length).repeat_interleave(beam))
        vocabulary = step.size(-1)
        total = (log_probability[..., None] + step.view(-1, beam, vocabulary)).flatten(1)
        log_probability, index = total.topk(beam)
        parent, token = index // vocabulary, index % vocabulary
        tokens = tokens.gather(1, parent[..., None].expand(-1, -1, width))
        tokens[..., length - 1] = token

        is_end = token == EOS
        ended = ended.add(tokens, log_probability.masked_fill(~is_end, -torch.inf),
                          length_penalty(length, alpha))
        log_probability = log_probability.masked_fill(is_end, -torch.inf)
        bound = log_probability.max(dim=1).values / length_penalty(limits, alpha)
        live = ended.scores[:, n_best - 1] < bound

        first_row = torch.arange(len(live), device=device)[:, None] * beam
        parent_rows = (first_row + parent)[live].flatten()
        if not live.all():
            ended.collect(~live, sentence, n_best, done)
            if not live.any():
                break
            sentence, limits, ended = sentence[live], limits[live], ended.keep(live)
            tokens, token, log_probability = tokens[live], token[live], log_probability[live]
            live_rows = live.repeat_interleave(beam)
            memory, src_mask = memory[live_rows], src_mask[live_rows]
            for layer in cache:
                layer.select_memory(live_rows)
        for layer in cache:
            layer.select_target(parent_rows)
        last = token.flatten()[:, None]
    return done


class _Ended(NamedTuple):
    """The finished hypotheses of each sentence, the best first; unused places score −∞."""

    tokens: Int[Tensor, "batch beam width"]
    log_probability: Float[Tensor, "batch beam"]
    scores: Float[Tensor, "batch beam"]

    @classmethod
    def none(cls, batch: int, beam: int, width: int, device: torch.device) -> "_Ended":
        nothing = torch.full((batch, beam), -torch.inf, device=device)
        return cls(torch.full((batch, beam, width), PAD, device=device), nothing, nothing)

    def add(self, tokens: Tensor, log_probability: Tensor, penalty: Tensor) -> "_Ended":
        scores, index = torch.cat([self.scores, log_probability / penalty], 1).topk(
            self.scores.size(1))
        tokens = torch.cat([self.tokens, tokens], 1)
        return _Ended(tokens.gather(1, index[..., None].expand(-1, -1, tokens.size(2))),
                      torch.cat([self.log_probability, log_probability], 1).gather(1, index),
                      scores)

    def keep(self, rows: Tensor) -> "_Ended":
        return _Ended(*(x[rows] for x in self))

    def collect(
        self, rows: Tensor, sentence: Tensor, n_best: int, into: list[list[Hypothesis]]
    ) -> None:
        """Write the hypotheses of these rows where their sentences belong."""
        for n, *hypotheses in zip(sentence[rows].tolist(),
                                  *(x[rows, :n_best].tolist() for x in self), strict=True):
            into[n] = [Hypothesis(tokens[:tokens.index(EOS)], log_probability, score)
                       for tokens, log_probability, score in zip(*hypotheses, strict=True)
                       if score > -torch.inf]


def _next_log_probabilities(
    model: Transformer, last: Tensor, memory: Tensor, src_mask: Tensor, cache: list[LayerCache]
) -> Float[Tensor, "rows vocabulary"]:
    states = model.decode(last, memory, src_mask, None, cache)
    step = model.project(states[:, -1]).float().log_softmax(dim=-1)
    step[:, [PAD, SOS]] = -torch.inf
    return step


def _only_eos(step: Float[Tensor, "rows vocabulary"], rows: Bool[Tensor, " rows"]) -> None:
    """At the length limit a hypothesis ends, whatever the model says."""
    eos = step[:, EOS].clone()
    step.masked_fill_(rows[:, None], -torch.inf)
    step[:, EOS] = eos
