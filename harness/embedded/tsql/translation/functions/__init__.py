"""The functions of T-SQL. Each module is a family with a table FUNCTIONS; `table` merges them."""
