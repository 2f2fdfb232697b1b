"""Translation of queries and expressions from sqlglot's tree to SQLite's SQL, with the T-SQL type of every column.

`renderer` renders a tree with one Python function for each kind of node. Those of expressions are in
`expression_renderers`, queries in `selects`, the functions of T-SQL in `functions`. What none of them has is an error,
so that nothing reaches SQLite that means something else there. `binding` resolves names and gives statements plans and
closures to run; `closures` evaluates what needs no SQLite: constants, variables and integers.
"""
