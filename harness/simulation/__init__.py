"""The paper's lab in virtual time: the embedded broker and the scripts of `sql/` on a model of the paper's hardware."""
