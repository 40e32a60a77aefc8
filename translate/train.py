"""The command `python -m translate.train`: trains a run to its end and scores it on the test sets.

A run that was interrupted goes on from its last validation; a finished one is left alone.
"""

import filecmp
import json
import os
import shutil
import sys
from pathlib import Path

from translate import command_line
from translate.config import Config
from translate.data.corpora import prepare
from translate.data.encoding import encode
from translate.data.lines import read_lines
from translate.errors import UserError
from translate.evaluate import evaluate
from translate.evaluation.report import table
from translate.runs import Run, load_trained, open_run, write_json
from translate.training.trainer import Trainer
from translate.training.validation import ParallelText


def train(config: Config, fresh: bool) -> None:
    run = open_run(config, fresh)
    if run.is_finished(config):
        report = json.loads(run.report.read_text(encoding="utf-8"))
        print(f"{run.folder} is finished after {report['updates']:,} updates; nothing to train. "
              "--fresh starts over and moves it aside.\n")
        print(table(report["results"], config.text.lowercase))
        return
    corpus = prepare(config.data)
    encoded = encode(config, corpus)
    _keep_text(encoded.text_folder, run)
    text = ParallelText(*(read_lines(path) for path in corpus.validation))
    trainer = Trainer(config, encoded, text, run)
    try:
        trainer.run()
        results = evaluate(load_trained(run.best), corpus)
        trainer.monitor.finished(trainer.progress.update, config, {
            f"test/bleu_{r['test_set']}_{r['search'].replace(' ', '')}": r["bleu"]["value"]
            for r in results})
    finally:
        trainer.monitor.close()
    progress = trainer.progress
    write_json({"updates": progress.update, "epochs": progress.epoch, "seconds": progress.seconds,
                "best_update": progress.best_update, "limits": config.training.limits(),
                "validations": progress.validations, "results": results}, run.report)
    python = os.path.relpath(sys.executable)  # .venv/bin/python, where make has put it
    if python.startswith(os.pardir):
        python = "python"
    print(f"\n{table(results, config.text.lowercase)}\n\n"
          f"trained in {progress.seconds / 60:.1f} min; the run is in {run.folder}. Next:\n"
          f'  {python} -m translate.decode "Der Hund läuft schnell."\n'
          "  make tensorboard\n"
          f"  {python} -m translate.evaluate --checkpoint {run.folder}")


def _keep_text(folder: Path, run: Run) -> None:
    """Copy vocabularies and subwords into the run; one that goes on must have the same ones."""
    names = [path.name for path in folder.iterdir()]
    if run.last.exists() and filecmp.cmpfiles(folder, run.text, names, shallow=False)[0] != names:
        raise UserError(f"{run.folder} was trained with other vocabularies: the training text, or "
                        "a library that cuts it, has changed since.\nStart over with --fresh (the "
                        "old run is moved aside), or name another one with --set name=…")
    shutil.copytree(folder, run.text, dirs_exist_ok=True)


def main() -> None:
    arguments = command_line.parser("train", __doc__ or "")
    command_line.add_config_options(arguments)
    arguments.add_argument("--fresh", action="store_true",
                           help="start over; a run of this name is moved aside, not deleted")
    options = arguments.parse_args()
    config = command_line.config_from(options)
    try:
        train(config, options.fresh)
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on from the last validation", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    command_line.run(main)
