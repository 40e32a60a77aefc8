"""The command `python -m translate.decode`: German in, English out.

Translates the sentence given, the lines of --file, or the lines of standard input: one line in, one
line out, an empty line for an empty one. With no sentence on a terminal it asks for them. The
translation alone goes to stdout; everything else goes to stderr.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from translate import command_line
from translate.data.lines import read_lines, split_lines
from translate.decoding.translator import Translation, Translator
from translate.errors import UserError
from translate.runs import find_checkpoint, load_trained


def main() -> None:
    options = _options()
    if options.attention and options.text is None:
        raise UserError("--attention draws one sentence: give it as the argument")
    checkpoint = find_checkpoint(options.checkpoint)
    trained = load_trained(checkpoint, options.overrides)
    print(f"translating with {checkpoint}", file=sys.stderr)
    translator = Translator(trained.model, trained.source, trained.target, trained.config.decoding)
    beam = 1 if options.greedy else options.beam
    for lines in _input(options):
        for n_best in translator.translate(lines, beam, options.n_best):
            _print(n_best, with_score=options.n_best > 1)
            if options.attention:
                _draw(translator, lines[0], n_best[0], options.attention)


def _options() -> argparse.Namespace:
    arguments = command_line.parser("decode", __doc__ or "")
    arguments.add_argument("text", nargs="?", help="the German sentence")
    arguments.add_argument("--file", type=Path, help="translate the lines of this file")
    arguments.add_argument("--checkpoint", type=Path, metavar="FOLDER",
                           help="a run folder or its best/ or last/ (default: the best checkpoint "
                                "of the newest run)")
    search = arguments.add_mutually_exclusive_group()
    search.add_argument("--beam", type=_count, metavar="N",
                        help="hypotheses kept at every step (default: the run's decoding.beam)")
    search.add_argument("--greedy", action="store_true", help="the same as --beam 1")
    arguments.add_argument("--n-best", type=_count, default=1, metavar="N",
                           help="print the N best with their scores, separated by tabs")
    arguments.add_argument("--attention", type=Path, metavar="PLOT.png",
                           help="draw what the decoder attends to")
    command_line.add_overrides(arguments)
    options = arguments.parse_args()
    if options.text is not None and options.file is not None:
        arguments.error("give a sentence or --file, not both")
    if options.greedy and options.n_best > 1:
        arguments.error("--greedy finds one translation; --n-best needs a beam")
    return options


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _input(options: argparse.Namespace) -> Iterable[list[str]]:
    """Lines to translate, in the groups that are translated together."""
    if options.text is not None:
        return [[options.text]]
    if options.file is not None:
        return [read_lines(options.file)]
    if sys.stdin.isatty():
        return _ask()
    return [split_lines(sys.stdin.buffer.read(), "stdin")]


def _ask() -> Iterator[list[str]]:
    print("German, a sentence a line; Ctrl-D ends.", file=sys.stderr)
    while True:
        try:
            # A prompt goes to standard output if that is a file or a pipe.
            yield [input("de> " if sys.stdout.isatty() else "")]
        except EOFError:
            print(file=sys.stderr)
            return


def _print(n_best: list[Translation], with_score: bool) -> None:
    for translation in n_best:
        score = f"{translation.score:.4f}\t" if with_score else ""
        print(score + translation.text)
    sys.stdout.flush()


def _draw(translator: Translator, line: str, translation: Translation, path: Path) -> None:
    from translate.decoding.attention_plot import plot_attention

    if path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise UserError(f"--attention {path}: write a .png, .pdf or .svg file")
    try:
        plot_attention(translator.attention(line, translation.tokens)).savefig(path)
    except OSError as error:
        raise UserError(f"--attention {path}: cannot write it: {error.strerror}") from None
    print(f"wrote {path}", file=sys.stderr)


if __name__ == "__main__":
    command_line.run(main)
