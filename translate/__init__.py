"""Train a German-to-English Transformer from scratch, and translate with it."""
