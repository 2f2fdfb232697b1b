"""Values of sql_variant, each of which carries its type: in SQLite a text that names both.

https://learn.microsoft.com/sql/t-sql/data-types/sql-variant-transact-sql
"""

import json
from decimal import Decimal
from typing import Any

from harness.embedded.sqltypes import SqlType

VARIANT = SqlType("sql_variant")


def encoded(type_: SqlType, value: Any) -> str:
    plain = value.hex() if isinstance(value, bytes) else float(value) if isinstance(value, Decimal) else value
    return json.dumps([plain, *type_])


def decoded(variant: str) -> tuple[SqlType, Any]:
    value, *parts = json.loads(variant)
    type_ = SqlType(*parts)
    return type_, bytes.fromhex(value) if type_.name in ("binary", "varbinary") else value
