"""An embedded instance with two answers changed, which a comparison must find.

`python -m tests.parity.differing_server FOLDER`; the password comes from the environment, as for `harness serve`.
"""

import sys
from pathlib import Path

from harness.embedded import errors
from harness.embedded.server import serve
from harness.embedded.tsql.catalog import broker_views

if __name__ == "__main__":
    errors.CATALOGUE[8423] = errors.ErrorText(16, "No service '%s' is | known here.")
    broker_views.VALIDATIONS["N"] = "NONE"
    sys.exit(serve.main(name="stand-in", port=0, data=Path(sys.argv[1]), with_parent=True))
