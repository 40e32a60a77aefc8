"""The command `python -m translate.prepare`: a corpus as aligned plain text in data/."""

from translate.command_line import add_config_options, config_from, parser, run
from translate.data.alignment import REPAIRED
from translate.data.corpora import prepare, prepared, table

DESCRIPTION = """\
Make the corpus of a config ready: download or read it, and leave one segment a line, aligned and
cleaned, in data/<corpus>/. Training does this by itself; run it to look at the text beforehand.
Runs of shifted lines in validation and test sets are told; --repair realigns them in a copy,
data/<corpus>-repaired/, and lists what it changes. No input file is ever changed.
"""


def main() -> None:
    arguments = parser("prepare", DESCRIPTION)
    add_config_options(arguments)
    arguments.add_argument("--repair", action="store_true",
                           help="realign shifted lines; the same as --set data.repair=true, with "
                                "which train and evaluate use the repaired sets")
    options = arguments.parse_args()
    if options.repair:
        options.overrides.append("data.repair=true")
    data = config_from(options).data
    corpus = prepared(data)
    if corpus is not None:
        print(f"{corpus.folder}: prepared already")
        print(table(corpus.folder))
    else:
        corpus = prepare(data)
    if data.repair:
        sets = [path.stem for path, _ in (corpus.validation, *corpus.test.values())]
        if not any(name.endswith(REPAIRED) for name in sets):
            print("no validation or test set has shifted lines: nothing is repaired")
        elif options.repair:
            print("train and evaluate use the repaired sets with --set data.repair=true")


if __name__ == "__main__":
    run(main)
