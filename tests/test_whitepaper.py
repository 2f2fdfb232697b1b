from harness.definitions import matrix, whitepaper
from harness.definitions.whitepaper import SYSDESEND_ROWS_PER_PAGE, TRICK_DIALOG_RATIO


def test_the_papers_numbers_fit_together():
    assert len(matrix.all_cells()) == whitepaper.PERMUTATIONS.value
    assert len(matrix.all_cells()) / len(matrix.PAPER_VERSIONS) == whitepaper.PERMUTATIONS_A_VERSION
    # "A maximum of 7,500 dialogs" an initiator, "22,500 total dialogs" at the target.
    assert max(matrix.THREADS) * TRICK_DIALOG_RATIO == 7_500
    assert max(matrix.THREADS) * TRICK_DIALOG_RATIO * max(matrix.INITIATORS) == 22_500
    # "Row data 47 bytes + row header 7 bytes", on pages of 8 KB.
    assert SYSDESEND_ROWS_PER_PAGE * (47 + 7) <= 8_192
    assert {TRICK_DIALOG_RATIO, whitepaper.BASE_DIALOG_RATIO} == set(matrix.DIALOG_RATIOS)
    # "Two receive tasks per core for our hardware configuration", which has 8.
    assert whitepaper.MAX_QUEUE_READERS == 2 * 8
    assert set(whitepaper.PEAK_THROUGHPUT) == set(matrix.INITIATORS)


def test_every_published_number_names_its_section():
    statements = [value for value in vars(whitepaper).values() if isinstance(value, whitepaper.Statement)]
    statements += whitepaper.PEAK_THROUGHPUT.values()
    assert len(statements) > 10
    assert all(statement.section and statement.unit and statement.wording for statement in statements)
