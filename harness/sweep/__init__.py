"""The sweep: one cell after the other by one protocol, with books, a journal and an end to every failure.

- `cell`: the protocol of one cell, from a check of generator and lab to its line in the journal
- `settling`: when the rate is steady enough to be measured
- `accounting`: sent = processed, exactly once and in order on each dialog
- `journal`, `manifest`: what became of each cell, and under which circumstances; together they allow a resume
- `folder`: where they lie: begun anew, or taken up again
- `sweep`: the loop over the cells: groups, retries, rebuilding what died
- `stand`, `opened`: the lab and what cells need beside it, kept as long as it fits, rebuilt when a part died
- `reporting`: what the user sees meanwhile

Rules. A cell counts only if its line in the journal says `completed`, and that line is written last, after its raw
records, and is on disk before the next cell starts. A cell whose books do not balance has failed, however fast it was.
A failed cell is tried once more on a rebuilt lab; then the sweep goes on. Only a full disk or an unwritable folder
ends a sweep early. Phases end on conditions, never after a fixed sleep; the measured window is the one exception.
"""
