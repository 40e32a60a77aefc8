"""A virtual environment for each program that this one is measured beside.

They lie in `benchmarks/.venvs/`, are made once, and are made anew when a version here changes.
"""

import subprocess
import sys
import venv
from pathlib import Path

REQUIREMENTS = {
    "marian": ["torch==2.13.0", "transformers==5.24.0"],
    # It imports importlib_metadata without asking for it.
    "joeynmt": ["torch==2.13.0", "joeynmt==2.3.0", "importlib_metadata==10.2.0"],
    "ctranslate2": ["ctranslate2==4.8.5"],
}
_FOLDER = Path(__file__).parent / ".venvs"


def interpreter(name: str) -> Path:
    """The Python of this environment, which is made if it is not there."""
    folder = _FOLDER / name
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    installed, wanted = folder / "installed", "\n".join(REQUIREMENTS[name])
    if not installed.exists() or installed.read_text(encoding="utf-8") != wanted:
        print(f"making the environment {folder}", file=sys.stderr)
        venv.create(folder, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                        *REQUIREMENTS[name]], check=True, stdout=sys.stderr)
        installed.write_text(wanted, encoding="utf-8")
    return python
