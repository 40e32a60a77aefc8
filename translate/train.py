"""The command `python -m translate.train`: trains a run to its end and scores it on the test sets.

A run that was interrupted, or killed, goes on from its last saved state; a finished one is left
alone. `torchrun --nproc-per-node N -m translate.train …` trains one run in N processes, one a GPU.
"""

import filecmp
import os
import shutil
import sys
from pathlib import Path

from translate import command_line
from translate.config import Config
from translate.data.corpora import Corpus, prepare
from translate.data.encoding import encode
from translate.data.lines import read_lines
from translate.errors import UserError
from translate.evaluate import evaluate
from translate.evaluation.report import table
from translate.runs import BASE, Run, load_trained, open_run, pick_device
from translate.storage import read_state, write_state
from translate.training.interruption import Stopped
from translate.training.lock import locked
from translate.training.processes import Processes, joined
from translate.training.trainer import Trainer
from translate.training.validation import ParallelText


def train(config: Config, fresh: bool) -> None:
    run = Run(BASE / config.name)
    with joined(pick_device(config.device)) as processes:
        if not processes.first:
            _train(config, run, processes)
            return
        with locked(run.folder):
            open_run(config, fresh)
            _train(config, run, processes)


def _train(config: Config, run: Run, processes: Processes) -> None:
    with processes.first_goes_ahead():
        if run.is_finished(config):
            if processes.first:
                _say_finished(config, run)
            return
        corpus = prepare(config.data)
        encoded = encode(config, corpus)
        if processes.first:
            _keep_text(encoded.text_folder, run)
    text = ParallelText(*(read_lines(path) for path in corpus.validation))
    trainer = Trainer(config, encoded, text, run, processes)
    try:
        trainer.run()
        if processes.first:
            _score(trainer, corpus, run)
    finally:
        trainer.monitor.close()


def _say_finished(config: Config, run: Run) -> None:
    report = read_state(run.report)
    print(f"{run.folder} is finished after {report['updates']:,} updates; nothing to train. "
          "--fresh starts over and moves it aside.\n")
    print(table(report["results"], config.text.lowercase))


def _score(trainer: Trainer, corpus: Corpus, run: Run) -> None:
    """The test sets, once and at the end; then the report, which says that the run is complete."""
    config, progress = trainer.config, trainer.progress
    results = evaluate(load_trained(run.best), corpus)
    trainer.monitor.finished(progress.update, config, {
        f"test/bleu_{r['test_set']}_{r['search'].replace(' ', '')}": r["bleu"]["value"]
        for r in results})
    write_state({"updates": progress.update, "epochs": progress.epoch, "seconds": progress.seconds,
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
    except Stopped as stop:
        print(f"\nstopped by {stop.signal.name} after update {stop.update:,}; the state is saved, "
              "and the same command goes on from there", file=sys.stderr)
        sys.exit(stop.exit_code)
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on from the last saved state",
              file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    command_line.run(main)
