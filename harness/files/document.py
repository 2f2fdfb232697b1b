"""What a command found, for other programs: JSON with a schema of its own, which `--json FILE` writes.

`Document.model_json_schema()` of a kind is its schema. A field that is new leaves `schema_version` as it is; one that
changes its meaning or goes raises it.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from harness.files.records import NotWritable, written_whole


class Document(BaseModel):
    schema_version: Literal[1] = 1

    def as_json(self) -> str:
        return self.model_dump_json(indent=2) + "\n"

    def write_json(self, path: Path) -> None:
        """Write the file; raises NotWritable."""
        write({path: self.as_json()})


def write(texts: Mapping[Path, str]) -> None:
    """Write texts to files, each whole or not at all; raises NotWritable."""
    for path, text in texts.items():
        try:
            with written_whole(path) as file:
                file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise NotWritable(f"{path} cannot be written: {error.strerror}") from None


def number(value: Any) -> float | None:
    """A number of a table; null where it is missing or infinite, which JSON cannot say."""
    return float(value) if value is not None and math.isfinite(value) else None
