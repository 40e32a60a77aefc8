"""A page of attention to explore: one HTML file that needs no network and no library."""

import base64
import json
import zlib
from pathlib import Path
from typing import Any, get_args

from translate.decoding.attention_plot import AXES, Kind, split_mark, tokens_of
from translate.decoding.translator import Attention


def attention_page(attention: Attention, of: Kind = "cross") -> str:
    """The text of the HTML file; it holds all three kinds of attention and opens with `of`."""
    data = {"of": of, "kinds": {kind: _kind(attention, kind) for kind in get_args(Kind)}}
    # A token may be "</script>"; in JSON, "<" is at home in strings alone.
    text = json.dumps(data).replace("<", "\\u003c")
    template = Path(__file__).with_name("attention_page.html").read_text(encoding="utf-8")
    return template.replace("{{attention}}", text)


def _kind(attention: Attention, of: Kind) -> dict[str, Any]:
    """Weights as zlib's bytes in base64, 0 to 255 each: layers × heads × queries × keys."""
    weights = getattr(attention, of).float()
    quantised = (255 * weights).round().clamp(0, 255).byte().numpy().tobytes()
    keys, queries = tokens_of(attention, of)
    return {
        "layers": weights.size(0),
        "heads": weights.size(1),
        "captions": AXES[of],
        "key": [split_mark(token) for token in keys],
        "query": [split_mark(token) for token in queries],
        "weights": base64.b64encode(zlib.compress(quantised)).decode("ascii"),
    }
