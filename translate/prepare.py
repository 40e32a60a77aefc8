"""The command `python -m translate.prepare`: a corpus as aligned plain text in data/."""

from translate.command_line import add_config_options, config_from, parser, run
from translate.data.corpora import prepare, prepared, table

DESCRIPTION = """\
Make the corpus of a config ready: download or read it, and leave one segment a line, aligned and
cleaned, in data/<corpus>/. Training does this by itself; run it to look at the text beforehand.
"""


def main() -> None:
    arguments = parser("prepare", DESCRIPTION)
    add_config_options(arguments)
    data = config_from(arguments.parse_args()).data
    ready = prepared(data)
    if ready is not None:
        print(f"{ready.folder}: prepared already")
        print(table(ready.folder))
    else:
        prepare(data)


if __name__ == "__main__":
    run(main)
