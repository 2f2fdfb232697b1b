"""The statements of the dialect: in one module their nodes, grammars, permission checks and compile functions.

To add a statement, write a module here (or extend one) that calls `registry.register`. All modules of this package are
imported with it, and what they register is the dialect.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
