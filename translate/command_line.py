"""What every command shares: --config, --set, and how a user's mistake is told."""

import argparse
import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from translate.config import Config, load_config
from translate.errors import UserError


def parser(command: str, description: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"python -m translate.{command}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_config_options(arguments: argparse.ArgumentParser) -> None:
    arguments.add_argument("--config", type=Path, default=Path("configs/sample.yaml"),
                           metavar="FILE", help="the run to work on (default: %(default)s)")
    add_overrides(arguments)


def add_overrides(arguments: argparse.ArgumentParser) -> None:
    arguments.add_argument("--set", action="append", default=[], dest="overrides",
                           metavar="KEY=VALUE",
                           help="change a setting, such as training.warmup=2000; may be repeated")


def config_from(options: argparse.Namespace) -> Config:
    return load_config(options.config, options.overrides)


def run(main: Callable[[], None]) -> None:
    """Run a command: UserError becomes a message and exit code 2, Ctrl-C becomes code 130.

    So does what the system refuses: a full disk, no permission, a folder in the place of a file.
    What is printed is UTF-8, as all that is read, whatever the locale.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names of files need not be UTF-8.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        main()
        sys.stdout.flush()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # such as `| head`
        _write_no_more()
        sys.exit(141)
    except OSError as error:
        if error.errno is None:  # a mistake of this program
            raise
        if error.filename is None:
            _write_no_more()
        print(f"error: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        sys.exit(2)


def _write_no_more() -> None:
    """Or Python would try again when it ends."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
