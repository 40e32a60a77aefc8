"""JoeyNMT's Transformer at our size."""

from types import SimpleNamespace
from typing import Any

from joeynmt.model import Model, build_model
from joeynmt.vocabulary import Vocabulary

SPECIAL = {"unk": "unk", "pad": "pad", "bos": "sos", "eos": "eos"}  # theirs -> ours


def build(settings: dict[str, Any], vocabulary_size: int) -> Model:
    """Post-norm, with one matrix for both embeddings and the output."""
    vocabulary = Vocabulary([str(n) for n in range(len(SPECIAL), vocabulary_size)], SimpleNamespace(
        sep_token=None, lang_tags=[], **{f"{theirs}_token": f"<{theirs}>" for theirs in SPECIAL},
        **{f"{theirs}_id": settings[ours] for theirs, ours in SPECIAL.items()}))
    sides = {side: {"type": "transformer", "num_layers": settings[f"{side}_layers"],
                    "layer_norm": "post", "num_heads": settings["heads"],
                    "hidden_size": settings["d_model"], "ff_size": settings["d_ff"],
                    "dropout": settings["dropout"],
                    "embeddings": {"embedding_dim": settings["d_model"], "scale": True,
                                   "dropout": settings["dropout"]}}
             for side in ("encoder", "decoder")}
    return build_model({**sides, "tied_embeddings": True, "tied_softmax": True},
                       vocabulary, vocabulary)
