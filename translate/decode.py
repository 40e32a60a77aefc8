"""The command `python -m translate.decode`: German in, English out.

Translates the sentence given, the lines of --file, or the lines of standard input: one line in, one
line out, an empty line for an empty one. With no sentence on a terminal it asks for them. The
translation alone goes to stdout; everything else goes to stderr.
"""

import argparse
import math
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from translate import command_line
from translate.data.lines import check_aligned, read_lines, split_lines
from translate.decoding.attention_plot import Kind
from translate.decoding.sampling import Sampling
from translate.decoding.translator import Attention, Translator
from translate.errors import UserError
from translate.runs import find_checkpoint, load_ensemble


def main() -> None:
    options = _options()
    if options.engine == "ctranslate2":
        from translate.decoding.ctranslate2_engine import find_exported, load_exported

        folder = find_exported(options.checkpoint[0] if options.checkpoint else None)
        exported = load_exported(folder, options.overrides, options.workers)
        print(f"translating with {folder}", file=sys.stderr)
        _translate(Translator([], exported.source, exported.target, exported.config,
                              exported.engine, exported.engine.positions), options)
        return
    checkpoints = [find_checkpoint(path) for path in options.checkpoint or [None]]
    ensemble = load_ensemble(checkpoints, options.overrides)
    print(f"translating with {', '.join(map(str, checkpoints))}", file=sys.stderr)
    first = ensemble[0]
    parts = [trained.model for trained in ensemble], first.source, first.target, first.config
    if options.score:
        _score(Translator(*parts), options)
    elif options.workers > 1:
        from translate.decoding.workers import workers

        with workers(options.workers, checkpoints, options.overrides) as answer:
            _translate(Translator(*parts, answer, at_a_time=options.workers), options)
    else:
        _translate(Translator(*parts), options)


def _options() -> argparse.Namespace:
    arguments = command_line.parser("decode", __doc__ or "")
    arguments.add_argument("text", nargs="?", help="the German sentence")
    arguments.add_argument("--file", type=Path, help="translate the lines of this file")
    arguments.add_argument("--checkpoint", type=Path, action="append", metavar="FOLDER",
                           help="a run folder or its best/ or last/ (default: the best checkpoint "
                                "of the newest run); given more than once, they translate together")
    strategy = arguments.add_argument_group("how it searches").add_mutually_exclusive_group()
    strategy.add_argument("--beam", type=_count, metavar="N",
                          help="hypotheses kept at every step (default: the run's decoding.beam)")
    strategy.add_argument("--greedy", action="store_true", help="the same as --beam 1")
    strategy.add_argument("--sample", action="store_true",
                          help="draw every token by its probability")
    sampling = arguments.add_argument_group("with --sample")
    sampling.add_argument("--temperature", type=_positive, default=1.0, metavar="T",
                          help="draw from p^(1/T): below 1 is more careful (default: 1)")
    sampling.add_argument("--top-k", type=_count, metavar="K",
                          help="only among the K likeliest tokens")
    sampling.add_argument("--top-p", type=_share, default=1.0, metavar="P",
                          help="only among the likeliest tokens that together have this share")
    sampling.add_argument("--seed", type=int, default=1, metavar="N",
                          help="another seed draws other translations (default: 1)")
    output = arguments.add_argument_group("what it prints")
    output.add_argument("--n-best", type=_count, default=1, metavar="N",
                        help="up to N translations that differ, with their scores before a tab")
    output.add_argument("--replace-unk", action="store_true",
                        help="in place of an <unk> the source word that attention points at")
    output.add_argument("--score", type=Path, metavar="FILE",
                        help="translate nothing: print for each line of this file, a translation, "
                             "its log-probability and score")
    output.add_argument("--attention", type=_picture, metavar="FILE",
                        help="draw what the model attends to: .png, .pdf, .svg, or an .html page "
                             "to explore")
    output.add_argument("--attention-of", choices=("cross", "encoder", "decoder"),
                        default="cross", help="which attention to draw (default: cross); a page "
                                              "holds all three and opens with this one")
    arguments.add_argument("--workers", type=_count, default=1, metavar="N",
                           help="search in N processes of one thread each: faster for many lines "
                                "on a CPU")
    arguments.add_argument("--engine", choices=("pytorch", "ctranslate2"), default="pytorch",
                           help="what runs the model: ctranslate2 takes one that `python -m "
                                "translate.export` has written (default: pytorch)")
    command_line.add_overrides(arguments)
    options = arguments.parse_args()
    if options.text is not None and options.file is not None:
        arguments.error("give a sentence or --file, not both")
    if (options.greedy or options.sample) and options.n_best > 1:
        arguments.error("--greedy and --sample find one translation; --n-best needs a beam")
    if options.attention and options.text is None:
        arguments.error("--attention draws one sentence: give it as the argument")
    if options.engine == "ctranslate2":
        for name, asked in (("--attention", options.attention), ("--score", options.score),
                            ("--sample", options.sample),
                            ("a second --checkpoint", len(options.checkpoint or []) > 1)):
            if asked:
                arguments.error(f"CTranslate2 cannot do {name}; leave out --engine")
    if options.replace_unk:
        options.overrides.append("decoding.replace_unk=true")
    return options


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _picture(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() not in (".html", ".png", ".pdf", ".svg"):
        raise argparse.ArgumentTypeError(f"{path}: write a .png, .pdf, .svg or .html file")
    return path


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError("must be above 0")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError("must be above 0, and 1 at most")
    return value


def _translate(translator: Translator, options: argparse.Namespace) -> None:
    beam = 1 if options.greedy else options.beam
    sampling = Sampling(options.temperature, options.top_k, options.top_p,
                        options.seed) if options.sample else None
    for lines in _input(options):
        for n_best in translator.translate(lines, beam, options.n_best, sampling):
            for translation in n_best:
                score = f"{translation.score:.4f}\t" if options.n_best > 1 else ""
                print(score + translation.text)
            sys.stdout.flush()
            if options.attention:
                attention = translator.attention(lines[0], n_best[0].tokens)
                _draw(attention, options.attention_of, options.attention)


def _score(translator: Translator, options: argparse.Namespace) -> None:
    translations = read_lines(options.score)
    lines = [line for group in _input(options) for line in group]
    check_aligned(lines, translations, str(options.score))
    for found in translator.score(lines, translations):
        print(f"{found.log_probability:.4f}\t{found.score:.4f}\t{found.text}")


def _input(options: argparse.Namespace) -> Iterable[list[str]]:
    """Lines to translate, in the groups that are translated together."""
    if options.text is not None:
        return [[_whole(options.text)]]
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
            yield [_whole(input("de> " if sys.stdout.isatty() else ""))]
        except EOFError:
            print(file=sys.stderr)
            return


def _whole(text: str) -> str:
    """What was typed, if all of it is text; Python has marked bytes that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError("the sentence is not UTF-8; set the terminal to it, or convert the "
                        "sentence with iconv") from None
    return text


def _draw(attention: Attention, of: Kind, path: Path) -> None:
    from translate.decoding.attention_page import attention_page
    from translate.decoding.attention_plot import plot_attention

    try:
        if path.suffix.lower() == ".html":
            path.write_text(attention_page(attention, of), encoding="utf-8")
        else:
            plot_attention(attention, of).savefig(path)
    except OSError as error:
        raise UserError(f"--attention {path}: cannot write it: {error.strerror}") from None
    print(f"wrote {path}", file=sys.stderr)


if __name__ == "__main__":
    command_line.run(main)
