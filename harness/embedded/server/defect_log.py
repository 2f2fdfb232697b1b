"""What a server does with a defect (`tsql.instance.defects`): one entry in its log, and it goes on."""

import logging

log = logging.getLogger(__name__)

Place = tuple[type[Exception], str, int]  # where an exception was raised: file and line


class DefectLog:
    """Logs each defect the first time it shows, with the text of the statement and where to report it."""

    def __init__(self) -> None:
        self._known: set[Place] = set()  # at most the lines of this program

    def report(self, defect: Exception, statement: str) -> None:
        place = _place(defect)
        if place in self._known:
            return
        self._known.add(place)
        log.error(
            "a defect of this server made a statement fail. Please report this entry as an issue of the harness; "
            "it is logged once. The statement: %r",
            statement,
            exc_info=defect,
        )


def _place(defect: Exception) -> Place:
    trace = defect.__traceback__
    if trace is None:
        return type(defect), "", 0
    while trace.tb_next is not None:
        trace = trace.tb_next
    return type(defect), trace.tb_frame.f_code.co_filename, trace.tb_lineno
