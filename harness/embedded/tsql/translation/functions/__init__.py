"""T-SQL's functions, by what they are about; `table.FUNCTIONS` has them all."""
