"""Where the harness's own files lie: inside the package when it was installed from a wheel, beside it in a checkout."""

from importlib.resources import files
from pathlib import Path

PACKAGE = Path(str(files("harness")))
# The checkout that this code runs from; None for an installed package.
CHECKOUT: Path | None = None if (PACKAGE / "sql").is_dir() else PACKAGE.parent
SQL_ROOT = (CHECKOUT or PACKAGE) / "sql"
LOCUSTFILE = PACKAGE / "load" / "locustfile.py"
COMPOSE_FILE = (CHECKOUT or PACKAGE) / "docker-compose.yml"
# Where .env lies, which Compose reads: beside docker-compose.yml in a checkout, else in the current folder.
PROJECT_FOLDER = CHECKOUT or Path()
