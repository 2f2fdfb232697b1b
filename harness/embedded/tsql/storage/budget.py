"""The budget of a statement: the processor time, rows and memory that it may use before others go on.

Nothing interrupts a statement but a wait. So it looks at its budget where it may work for long: in a query, between
pieces of rows, in functions of long values. After a statement that has looked, others go on: a loop of short statements
never exceeds the budget, however long it lasts. In virtual time there is none.
"""


class Budget:
    """No bounds, as in virtual time."""

    rows_max = 2**31 - 2  # that a query reads
    is_long = False  # the statement that runs has looked: others go on after it

    def look(self) -> None:
        """Check now and then; cheap enough for loops."""

    def check(self, work_ns: int = 0) -> None:
        """Raise 50003 if the statement has used up its processor time, or will have after so much more work; 701 if it
        takes too much memory."""

    def refuse_rows(self) -> None:
        """Raise 50003: the statement reads more than `rows_max` rows."""

    def begin(self) -> None:
        """Begin anew, for the next statement."""
