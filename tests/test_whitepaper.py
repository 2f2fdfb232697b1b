from harness import matrix, whitepaper
from harness.whitepaper import PAGE_BYTES, SYSDESEND_ROW_BYTES, SYSDESEND_ROWS_PER_PAGE, TRICK_DIALOG_RATIO


def test_the_papers_numbers_fit_together():
    assert len(matrix.all_cells()) == whitepaper.PERMUTATIONS.value
    assert max(matrix.THREADS) * TRICK_DIALOG_RATIO == whitepaper.DIALOGS_MAX_PER_INITIATOR.value
    assert max(matrix.INITIATORS) * whitepaper.DIALOGS_MAX_PER_INITIATOR.value == whitepaper.DIALOGS_MAX_AT_TARGET.value
    assert SYSDESEND_ROWS_PER_PAGE * SYSDESEND_ROW_BYTES <= PAGE_BYTES
    assert whitepaper.TRICK_MEMORY_50_DIALOGS.value == 50 * PAGE_BYTES / 1024
    assert {TRICK_DIALOG_RATIO, whitepaper.BASE_DIALOG_RATIO} == set(matrix.DIALOG_RATIOS)
    assert 2 * whitepaper.DATABASE_SERVER.cores == whitepaper.MAX_QUEUE_READERS
    assert set(whitepaper.PEAK_THROUGHPUT) == set(matrix.INITIATORS)


def test_every_published_number_names_its_section():
    statements = [value for value in vars(whitepaper).values() if isinstance(value, whitepaper.Statement)]
    statements += whitepaper.PEAK_THROUGHPUT.values()
    assert len(statements) > 10
    assert all(statement.section and statement.unit and statement.wording for statement in statements)
