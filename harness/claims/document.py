"""The claims of the paper on a run for other programs, which `--json` of `harness claims` writes."""

import pandas as pd
from pydantic import BaseModel, Field, field_validator

from harness.files.document import Document, number


class JudgedClaim(BaseModel):
    """A row of the reduced table `claims`, under the names that it has there."""

    claim: str
    statement: str
    section: str = Field(description="of the paper")
    wording: str = Field(description="the paper's number, in its words")
    unit: str = Field(description="of the numbers that follow; a missing one, or an end without bound, is null")
    published: float | None
    holds_from: float | None
    holds_to: float | None
    measured: float | None
    measured_low: float | None = Field(description="lower end of the 95 % interval")
    measured_high: float | None
    blocks: int = Field(description="over which the number is a mean; 0: none, or a count")
    provenance: str = Field(description="measured; of a model predicted, fitted, by construction; – without a number")
    verdict: str = Field(description="holds, fails, inconclusive, not known from one run, not measured")
    explanation: str

    _null = field_validator(
        "published", "holds_from", "holds_to", "measured", "measured_low", "measured_high", mode="before"
    )(number)


class ClaimsDocument(Document):
    run_id: str
    lab: str
    load_model: str
    claims: list[JudgedClaim]


def of_table(table: pd.DataFrame) -> ClaimsDocument:
    """Describe a table of `claims.as_table`."""
    rows = table.to_dict("records")
    return ClaimsDocument.model_validate({**rows[0], "claims": rows})
