"""The command `python -m translate.export`: a trained model for another program to run.

CTranslate2 is a C++ library that runs Transformers on CPUs and GPUs, with weights of 8 bits if
asked for. The folder written holds all that translating needs: `python -m translate.decode --engine
ctranslate2` takes it, and so does any program that uses the library.
"""

import argparse
import os
import shutil
from pathlib import Path

from translate import command_line
from translate.config import save_config
from translate.decoding.ctranslate2_engine import FOLDER
from translate.decoding.ctranslate2_model import write_model
from translate.errors import UserError
from translate.runs import Run, Trained, find_checkpoint, load_trained

QUANTIZATIONS = ("float32", "float16", "bfloat16", "int16", "int8", "int8_float32", "int8_float16",
                 "int8_bfloat16")


def main() -> None:
    options = _options()
    checkpoint = find_checkpoint(options.checkpoint)
    folder = options.output or checkpoint.parent / FOLDER
    if folder.exists() and not (folder / "model.bin").exists():
        raise UserError(f"{folder} exists and holds no exported model: name another --output")
    _write(load_trained(checkpoint, options.overrides), options.quantization, folder)
    size = (folder / "model.bin").stat().st_size / 1e6
    print(f"wrote {checkpoint} to {folder}: {options.quantization}, {size:.1f} MB")


def _options() -> argparse.Namespace:
    arguments = command_line.parser("export", __doc__ or "")
    arguments.add_argument("checkpoint", nargs="?", type=Path, metavar="CHECKPOINT",
                           help="a run folder or its best/ or last/ (default: the best checkpoint "
                                "of the newest run)")
    arguments.add_argument("--to", choices=["ctranslate2"], required=True,
                           help="the program that is to run it")
    arguments.add_argument("--quantization", choices=QUANTIZATIONS, default="float32",
                           metavar="TYPE",
                           help="how weights are kept: int8 is smaller and faster on a CPU, "
                                "float16 on a GPU (default: %(default)s; one of "
                                f"{', '.join(QUANTIZATIONS)})")
    arguments.add_argument("--output", type=Path, metavar="FOLDER",
                           help=f"where to write (default: {FOLDER}/ in the run folder)")
    command_line.add_overrides(arguments)
    return arguments.parse_args()


def _write(trained: Trained, quantization: str, folder: Path) -> None:
    """Beside the folder that is there, then in its place: it is never half-written."""
    partial = folder.with_name(f"{folder.name}.partial")
    previous = folder.with_name(f"{folder.name}.previous")
    try:
        for path in (partial, previous):
            shutil.rmtree(path, ignore_errors=True)
        partial.mkdir(parents=True)
        write_model(trained.model, trained.config, trained.source.vocabulary,
                    trained.target.vocabulary, quantization, partial)
        save_config(trained.config, Run(partial).config)
        shutil.copytree(Run(trained.checkpoint.resolve().parent).text, Run(partial).text)
        if folder.exists():
            os.replace(folder, previous)
        os.replace(partial, folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot write it: {error.strerror}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(previous, ignore_errors=True)


if __name__ == "__main__":
    command_line.run(main)
