"""The statements of the dialect, in one module for each family.

A statement that changes the catalog is one function, decorated with `definitions.define`: it parses the statement and
returns its permission check and its work. Any other is a node, a parse function and a compile function, decorated with
`registry.register`. All modules of this package are imported with it, and what they register is the dialect.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
