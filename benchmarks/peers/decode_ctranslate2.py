"""CTranslate2, with our weights as `python -m translate.export` writes them."""

import json
import sys
from pathlib import Path
from typing import Any

from ctranslate2 import Translator
from serve import Ids, serve

if __name__ == "__main__":
    folder, compute_type, intra_threads, inter_threads = sys.argv[1:]
    settings = json.loads((Path(folder) / "settings.json").read_text(encoding="utf-8"))
    source, target = settings["source_tokens"], settings["target_tokens"]
    numbers = {token: n for n, token in enumerate(target)}
    translator = Translator(str(Path(folder) / "ctranslate2"), compute_type=compute_type,
                            intra_threads=int(intra_threads), inter_threads=int(inter_threads))

    def search(request: dict[str, Any]) -> list[Ids]:
        # It sorts by length, makes the batches and shares them among its workers.
        results = translator.translate_batch(
            [[source[n] for n in ids] for ids in request["sources"]],  # it adds <eos>
            beam_size=request["beam"], length_penalty=settings["length_penalty"],
            max_decoding_length=max(request["limits"]),
            max_batch_size=request.get("batch") or request["batch_tokens"] // request["beam"],
            batch_type="examples" if "batch" in request else "tokens")
        return [[numbers[token] for token in result.hypotheses[0]][:limit - 1]
                for result, limit in zip(results, request["limits"], strict=True)]

    serve(search)
